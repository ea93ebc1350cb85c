// Plays Node's part of a Guild flow for tests: node play.cjs URL, then a command in JSON on each line of stdin.
// create: jobs of flow "access" that begin in checking; parent: one whose queue has children; look: jobs by userId, with children.
// Queue granting and the parent queue are worked here, and a FlowMonitor looks fifty times a second, until stdin ends.
const readline = require("node:readline");
const { Flow, FlowMonitor } = require("@guildxyz/queues");

const redisClientOptions = { url: process.argv[2] };
const warnings = [];
const quiet = () => {};
const warn = (message) => warnings.push(message);
const logger = { debug: quiet, info: quiet, verbose: quiet, warn, error: warn };
const correlator = { withId: (_, work) => work(), getId: () => "corr-1" };
const lookupAttributes = ["userId", "roleIds"];
const granting = { queueName: "granting", attributesToGet: ["userId", "allowed"] };

const access = new Flow({
  name: "access", redisClientOptions, logger, correlator, lookupAttributes,
  queueOptions: [
    { queueName: "checking", attributesToGet: ["userId", "roleIds"], nextQueueName: "granting" },
    granting,
  ],
});
const parents = new Flow({
  name: "access", redisClientOptions, logger, correlator, lookupAttributes,
  queueOptions: [
    { queueName: "parent", nextQueueName: "granting", children: [{ queueName: "role", attributesToGet: ["roleId"] }] },
    granting,
  ],
});
// Only the queue that the bridge works: it may fail a job that a Node worker has just completed, as it lists first and asks later.
const monitor = new FlowMonitor({
  redisClientOptions, logger, flowName: "access", queueNames: ["checking"], intervalMs: 20,
});

const commands = {
  create: ({ jobs }) => Promise.all(jobs.map((job) => access.createJob(job))),
  parent: ({ children, userId }) => parents.createJob({
    userId,
    "children:parent:params": children.map((roleId) => ({ childName: "role", roleId })),
  }),
  look: ({ userId }) => access.getJobsByKey("userId", userId, true),
  warnings: async () => warnings,
};

async function main() {
  access.createWorkers("granting", async (job) => ({ done: true, granted: job.allowed }), 2, 10, 1);
  parents.createParentWorkers("parent", 1, 30, 1);
  await Promise.all([access.startAll(), parents.startAll(), monitor.start()]);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    console.log(JSON.stringify(await commands[command.do](command)));
  }
  process.exit(0);
}

main();
