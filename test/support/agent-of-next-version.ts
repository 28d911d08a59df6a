// `metal-agent` as its source is, by the version of a later build.
Object.assign(globalThis, { METAL_AGENT_VERSION: '99.0.0' })
await import('../../src/cli/metal-agent.ts')
