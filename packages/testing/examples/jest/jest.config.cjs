// The configuration of the example. It has no TypeScript, so that nothing is transformed.
module.exports = { testEnvironment: 'node', transform: {} };
