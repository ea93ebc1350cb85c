// The Node client of Resque, driven by lines of JSON: one request a line, one answer a line.
// `node play.cjs PORT`
const readline = require("node:readline");
const Redis = require("ioredis");
const { Queue, Worker } = require("node-resque");

const connection = { pkg: "ioredis", host: "127.0.0.1", port: Number(process.argv[2]), database: 0, namespace: "resque" };
const notes = new Redis(connection.port, connection.host);
const jobs = {
  note: {
    perform: async (text) => {
      await new Promise((resolve) => setTimeout(resolve, 5)); // or it would leave nothing for others
      await notes.rpush("noted", JSON.stringify([text, "node"]));
    },
  },
};
const queue = new Queue({ connection }, jobs);
let worker = null;

const steps = {
  enqueue: async ({ to, name, calls }) => {
    for (const args of calls) await queue.enqueue(to, name, args);
  },
  remove: async ({ to, name, args }) => queue.del(to, name, args),
  work: async ({ queues }) => {
    worker = new Worker({ connection, queues, timeout: 20 }, jobs);
    await worker.connect();
    await worker.start();
  },
  look: async () => ({
    workers: await queue.workers(),
    working: await queue.allWorkingOn(),
    stats: await queue.stats(),
    failed: await queue.failed(0, -1),
  }),
  retry: async () => queue.retryAndRemoveFailed((await queue.failed(0, 0))[0]),
  removeFailed: async () => queue.removeFailed((await queue.failed(0, 0))[0]),
  end: async () => {
    if (worker !== null) await worker.end();
    await queue.end();
    notes.disconnect();
  },
};

async function main() {
  await queue.connect();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    const answer = await steps[request.do](request);
    console.log(JSON.stringify(answer === undefined ? null : answer));
    if (request.do === "end") break;
  }
  process.exit(0);
}

main();
