import type { Command } from 'commander'
import { z } from 'zod'
import type { AgentLink } from '../../contract/client.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import type { CliIo } from '../io.ts'
import { renderStatus } from '../status-table.ts'
import { agentVerb, run, type VerbContext } from './verb.ts'

const clearScreen = '\u001b[H\u001b[2J\u001b[3J'

export function statusVerbCommands(context: VerbContext): Command[] {
  const { io } = context
  const status = agentVerb('status', 'show what a running agent does', context)
    .option('-w, --watch', 'again after each change')
    .action((options: unknown) =>
      run(context, options, async (agent, { json }) => {
        const { watch } = z.object({ watch: z.boolean().default(false) }).parse(options)
        if (watch) return await showOn(agent, io, json)
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

/** Ends when the agent does, with what its link says. */
function showOn(agent: AgentLink, io: CliIo, json: boolean): Promise<never> {
  const text = (snapshot: AgentSnapshot): string => {
    if (json) return `${JSON.stringify(snapshot)}\n`
    const table = renderStatus(snapshot, styleOf(io))
    return io.stdout.isTTY === true ? `${clearScreen}${table}` : `${table}\n`
  }
  return new Promise((_, reject) => {
    agent.follow({ next: (snapshot) => io.stdout.write(text(snapshot)), end: reject })
  })
}

function styleOf({ stdout, env, platform }: CliIo) {
  const locale = env['LC_ALL'] || env['LC_CTYPE'] || env['LANG']
  return {
    columns: stdout.isTTY === true ? stdout.columns : undefined,
    colour: stdout.isTTY === true && !env['NO_COLOR'],
    unicode: locale === undefined ? platform === 'darwin' : /utf-?8/i.test(locale),
  }
}
