import { flushCompileCache } from 'node:module'
import { z } from 'zod'
import { Agent } from '../../src/agent-core/agent/agent.ts'
import { agentSettings } from '../../src/agent-core/settings/settings.ts'
import { StatedMemory } from '../support/stated-memory.ts'

// An agent as a process of its own that may run two servers of one service beside each other. Says what it does, a line each.
const prepared = z.object({
  settings: agentSettings,
  identity: z.object({ nodeId: z.string(), displayName: z.string() }),
})
const { settings, identity } = prepared.parse(JSON.parse(process.argv[2] ?? ''))
const say = (message: string) => void process.stdout.write(`${message}\n`)
const agent = new Agent({
  settings,
  identity: { ...identity, notice: undefined },
  platform: new StatedMemory().platform,
  version: 'v0-test',
  env: process.env,
  notices: [],
  log: { debug: () => {}, info: say, warn: say, error: say },
})
await agent.start()
// It is killed, and would leave the next one to compile all of this again.
flushCompileCache()
