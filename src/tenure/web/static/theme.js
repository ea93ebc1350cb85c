// Before the first paint: what this browser has chosen for theme, density and time zone.

document.documentElement.dataset.scripts = "on";
for (const name of ["theme", "density", "zone"]) {
  try {
    const chosen = localStorage.getItem(`tenure-${name}`);
    if (chosen) document.documentElement.dataset[name] = chosen;
  } catch { /* storage is forbidden: the defaults stay */ }
}
