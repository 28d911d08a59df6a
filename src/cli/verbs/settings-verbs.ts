import type { Command } from 'commander'
import { z } from 'zod'
import { contextDoubt } from '../../contract/commands.ts'
import { settingsPatch } from '../../contract/settings.ts'
import { send, VerbError } from '../agent-session.ts'
import { patchOf, settingSpellings, spelledSetting, spelledStartSetting, startSpellings } from '../setting-values.ts'
import { columns } from '../text.ts'
import { group } from './node-verbs.ts'
import { agentVerb, run, type VerbContext } from './verb.ts'

const origins = {
  ...{ default: 'default', flag: 'command line' },
  ...{ startFile: 'start-settings.json', person: 'set here' },
} as const

export function settingsVerb(context: VerbContext): Command {
  const get = agentVerb(
    'get',
    'each setting, its value and where that comes from; what it does says where a change takes a restart',
    context,
  )
    .alias('list')
    .argument('[setting]', 'one of them')
    .action((name: string | undefined, options: unknown) =>
      run(context, options, async (agent, { json }) => {
        const answer = await agent.query({ name: 'settings' })
        const isAsked = ({ spelled }: { readonly spelled: string }) => name === undefined || spelled === name
        const settings = answer.settings.filter((view) => isAsked(spelledSetting(view)))
        const start = answer.start.filter((view) => isAsked(spelledStartSetting(view)))
        if (settings.length + start.length === 0) {
          const known = [...settingSpellings, ...startSpellings].join(', ')
          throw new VerbError(`There is no setting ${name ?? ''}: the settings are ${known}.`)
        }
        const shown = [
          ...settings.map((view) => ({ ...view, ...spelledSetting(view) })),
          ...start.map((view) => ({ ...view, ...spelledStartSetting(view) })),
        ]
        const rows = shown.map(({ spelled, text, from, help }) => [spelled, text, origins[from], help])
        const table = columns(['SETTING', 'VALUE', 'FROM', 'WHAT IT DOES'], rows)
        context.io.stdout.write(json ? `${JSON.stringify({ settings, start })}\n` : table)
        return 0
      }),
    )
  const set = agentVerb('set', 'change a setting', context)
    .argument('<setting>', settingSpellings.join(', '))
    .argument('<value>', 'a value, or "default" to give it back')
    .option(
      '--anyway',
      'of a kubeconfig: also where its context says production, its cluster does not answer, or LLMKube is not there',
    )
    .action((name: string, value: string, options: unknown) =>
      run(context, options, async (agent, { json }) => {
        const patch = settingsPatch.safeParse(patchOf(name, value))
        if (!patch.success)
          throw new VerbError(
            `${name} ${patch.error.issues[0]?.message ?? 'cannot be that'}, not ${JSON.stringify(value)}.`,
          )
        const { anyway } = z.object({ anyway: z.boolean().default(false) }).parse(options)
        const accept = anyway ? { accept: contextDoubt.options } : {}
        return await send(agent, { name: 'updateSettings', settings: patch.data, ...accept }, { io: context.io, json })
      }),
    )
  return group('settings', 'show or change settings', [get, set])
}
