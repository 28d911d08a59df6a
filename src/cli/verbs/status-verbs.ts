import type { Command } from 'commander'
import { z } from 'zod'
import { LinkError } from '../../contract/client.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import type { AgentClient } from '../../serve/client/agent-client.ts'
import { LastingLink } from '../../serve/client/lasting-link.ts'
import { clearScreen, type CliIo, usesUnicode } from '../io.ts'
import { renderStatus } from '../status-table.ts'
import { agentVerb, run, type VerbContext } from './verb.ts'

export function statusVerbCommands(context: VerbContext): Command[] {
  const { io } = context
  const status = agentVerb('status', 'show what a running agent does', context)
    .option('-w, --watch', 'again after each change')
    .action((options: unknown) =>
      run(context, options, async (agent, { json, connect }) => {
        const { watch } = z.object({ watch: z.boolean().default(false) }).parse(options)
        if (watch) return await showOn(connect, io, json)
        const snapshot = await agent.snapshot()
        io.stdout.write(json ? `${JSON.stringify(snapshot, null, 2)}\n` : renderStatus(snapshot, styleOf(io)))
        return 0
      }),
    )
  const names = agentVerb('names', 'the services of a running agent, one a line', context).action((options: unknown) =>
    run(context, options, async (agent, { json }) => {
      const names = (await agent.snapshot()).services.map(({ namespace, name }) => `${namespace}/${name}`)
      io.stdout.write(json ? `${JSON.stringify(names)}\n` : names.map((name) => `${name}\n`).join(''))
      return 0
    }),
  )
  return [status, names]
}

/** Goes on through restarts of the agent until it is interrupted; ends at a problem that only a person can mend. */
function showOn(connect: () => Promise<AgentClient>, io: CliIo, json: boolean): Promise<never> {
  const text = (snapshot: AgentSnapshot): string => {
    if (json) return `${JSON.stringify(snapshot)}\n`
    const table = renderStatus(snapshot, styleOf(io))
    return io.stdout.isTTY === true ? `${clearScreen}${table}` : `${table}\n`
  }
  return new Promise((_, reject) => {
    let isAway = false
    new LastingLink({ connect }).watch((mirror) => {
      if (mirror.state === 'live') io.stdout.write(text(mirror.snapshot))
      if (mirror.state === 'away' && !isAway) io.stderr.write(`metal-agent: ${mirror.message} It is waited for.\n`)
      if (mirror.state === 'refused') reject(new LinkError('refused', mirror.message))
      isAway = mirror.state === 'away'
    })
  })
}

function styleOf(io: CliIo) {
  const { stdout, env } = io
  return {
    columns: stdout.isTTY === true ? stdout.columns : undefined,
    colour: stdout.isTTY === true && !env['NO_COLOR'],
    unicode: usesUnicode(io),
  }
}
