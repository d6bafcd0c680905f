// Loaded into a server before its code: when asked, it writes the files whose functions were called since the last time.
'use strict';
const { existsSync, renameSync, rmSync, writeFileSync } = require('node:fs');
const { Session } = require('node:inspector');

const report = process.env.BENCH_COVERAGE;
const inspector = new Session();
inspector.connect();
inspector.post('Profiler.enable');
inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
// No signal is free: those that would end the process stop the server.
setInterval(() => {
  if (!existsSync(`${report}.ask`)) return;
  rmSync(`${report}.ask`);
  inspector.post('Profiler.takePreciseCoverage', (error, taken) => {
    if (error) throw error;
    // The first function of a module is its top level.
    const visited = taken.result.filter(({ functions }) =>
      functions.slice(1).some(({ ranges }) => ranges[0].count > 0),
    );
    writeFileSync(`${report}.part`, JSON.stringify(visited.map(({ url }) => url)));
    renameSync(`${report}.part`, report);
  });
}, 20).unref();
