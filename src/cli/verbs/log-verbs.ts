import type { Command } from 'commander'
import { z } from 'zod'
import type { AgentLink } from '../../contract/client.ts'
import type { ServiceRef } from '../../contract/commands.ts'
import { maxLogLines, type LogChunk, type LogCursor } from '../../contract/log.ts'
import type { CliIo } from '../io.ts'
import { serviceNamed } from '../service-name.ts'
import { cleanText } from '../../contract/clean-text.ts'
import { agentVerb, namespaceIn, namespaceOption, run, type VerbContext } from './verb.ts'

const logOptions = z.object({
  follow: z.boolean().default(false),
  previous: z.boolean().default(false),
  lines: z.coerce.number().int().min(1).max(maxLogLines).default(200),
})

export function logVerb(context: VerbContext): Command {
  return agentVerb('logs', "print what a service's server wrote", context)
    .argument('<service>', 'name of the service, or namespace/name')
    .option('-f, --follow', 'go on with what it writes')
    .option('--previous', 'of the run before this one')
    .option('-n, --lines <count>', `how many lines, at most ${maxLogLines}`, '200')
    .option('--namespace <namespace>', namespaceOption[1])
    .action((name: string, options: unknown) =>
      run(context, options, async (agent, { json }) => {
        const { follow, previous, lines } = logOptions.parse(options)
        const service = serviceNamed(name, (await agent.snapshot()).services, namespaceIn(options))
        const run = previous ? 'previous' : 'current'
        const chunk = await agent.query({ name: 'log', service, run, lines })
        print(chunk, context.io, json)
        return follow ? await printOn(agent, service, chunk.end, { io: context.io, json }) : 0
      }),
    )
}

/** Ends when the agent does, with what its link says. */
function printOn(
  agent: AgentLink,
  service: ServiceRef,
  from: LogCursor,
  { io, json }: { io: CliIo; json: boolean },
): Promise<never> {
  return new Promise((_, reject) => {
    agent.stream({ name: 'log', service, from }, { next: (chunk) => print(chunk, io, json), end: reject })
  })
}

/** Gaps are reported on standard error, not in the output. */
function print({ lines, gap, ...rest }: LogChunk, io: CliIo, json: boolean): void {
  if (json) {
    io.stdout.write(`${JSON.stringify({ lines, gap, ...rest })}\n`)
    return
  }
  if (gap !== undefined) io.stderr.write(`metal-agent: ${gap}\n`)
  io.stdout.write(lines.map((line) => `${cleanText(line)}\n`).join(''))
}
