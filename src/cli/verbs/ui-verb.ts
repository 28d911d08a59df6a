import type { Command } from 'commander'
import { z } from 'zod'
import { VerbError } from '../agent-session.ts'
import { agentVerb, run, type VerbContext } from './verb.ts'

export function uiVerb(context: VerbContext): Command {
  return agentVerb(
    'ui',
    'print an address of the window for a browser on this machine, good for two minutes and once',
    context,
  )
    .option('--port <number>', 'on 127.0.0.1; any free one where it is left out')
    .action((options: unknown) => {
      const port = portNumber(z.object({ port: z.string().default('0') }).parse(options).port)
      return run(context, options, async (agent, { json }) => {
        const url = await agent.openWindow(port)
        context.io.stdout.write(json ? `${JSON.stringify({ url })}\n` : `${url}\n`)
        return 0
      })
    })
}

function portNumber(text: string): number {
  const port = Number(text)
  if (/^\d{1,5}$/.test(text) && port <= 65_535) return port
  throw new VerbError(`--port must be a port number from 0 to 65535, not ${JSON.stringify(text)}.`)
}
