import type { Command } from 'commander'
import { z } from 'zod'
import { startRows } from '../agent-core/settings/start-rows.ts'
import { nearest } from '../agent-core/util/go-flags.ts'
import { contextDoubt } from '../contract/commands.ts'
import { countsTexts, type SettingKind } from '../contract/settings-table.ts'
import {
  editableRow,
  formatSetting,
  readSetting,
  settingNames,
  settingsPatch,
  settingText,
  spellingOf,
  type SettingsPatch,
  type SettingView,
  type StartSettingView,
} from '../contract/settings.ts'
import { agentVerb, group, run, send, VerbError, type VerbContext } from './agent-session.ts'
import { columns } from './io.ts'

const origins = {
  ...{ default: 'default', flag: 'command line' },
  ...{ startFile: 'start-settings.json', person: 'set here' },
} as const

export function settingsVerb(context: VerbContext): Command {
  const get = agentVerb(
    'get',
    'list each setting with its value and source; WHAT IT DOES says if a change needs a restart',
    context,
  )
    .alias('list')
    .argument('[setting]', 'only this setting')
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
    .argument(
      '<value>',
      'a value, or "default" to reset it; for namespace, "default" is the namespace of that name, and "" is all',
    )
    .option(
      '--anyway',
      'for a kubeconfig: even if its context says production, its cluster does not answer, or LLMKube is not installed there',
    )
    .action((name: string, value: string, options: unknown) =>
      run(context, options, async (agent, { json }) => {
        const patch = settingsPatch.safeParse(patchOf(name, value))
        if (!patch.success)
          throw new VerbError(
            `${name} ${patch.error.issues[0]?.message ?? 'must be a valid value'}, not ${JSON.stringify(value)}.`,
          )
        const { anyway } = z.object({ anyway: z.boolean().default(false) }).parse(options)
        const accept = anyway ? { accept: contextDoubt.options } : {}
        return await send(agent, { name: 'updateSettings', settings: patch.data, ...accept }, { io: context.io, json })
      }),
    )
  return group('settings', 'show or change settings', [get, set])
}

const none = '-'

export const settingSpellings: readonly string[] = settingNames.map(spellingOf)

/** Settings that count only from the start. */
export const startSpellings: readonly string[] = Object.values(startRows).map(({ flag }) => flag)

/** `default` gives the setting back, and so does nothing where `default` is a value of its own. Throws VerbError; whether the value makes sense is for the agent to say. */
export function patchOf(spelled: string, text: string): Readonly<Record<string, unknown>> & SettingsPatch {
  const name = settingNames.find((one) => spellingOf(one) === spelled)
  if (name === undefined) {
    if (startSpellings.includes(spelled)) {
      throw new VerbError(
        `${spelled} ${countsTexts.nextAgent}: start the agent with --${spelled}, or in the app set it in start-settings.json.`,
      )
    }
    const near = nearest(spelled, settingSpellings)
    const advice = near === undefined ? `the settings are ${settingSpellings.join(', ')}` : `did you mean ${near}?`
    throw new VerbError(`There is no setting ${spelled}: ${advice}`)
  }
  const { kind, startsAs } = editableRow(name)
  return { [name]: text === (startsAs === 'default' ? '' : 'default') ? null : parsed(spelled, kind, text) }
}

/** A setting as the list shows it. */
interface SpelledSetting {
  readonly spelled: string
  readonly text: string
  readonly help: string
}

export function spelledSetting({ name, value }: SettingView): SpelledSetting {
  const row = editableRow(name)
  const fallback = value === null ? row.defaultMeans : undefined
  return {
    spelled: spellingOf(name),
    text: value === null ? none : formatSetting(row.kind, value),
    help: helpOf(settingText(row), fallback, countsTexts[row.counts]),
  }
}

export const spelledStartSetting = (view: StartSettingView): SpelledSetting => ({
  spelled: view.flag.slice(2, view.flag.indexOf('=')),
  text: view.value === '' ? none : view.value,
  help: helpOf(settingText(view), view.value === '' ? view.none : undefined, countsTexts.nextAgent),
})

const helpOf = (text: string, meaning: string | undefined, counts: string): string =>
  `${text}${meaning === undefined ? '' : ` ${none} = ${meaning}.`} A change ${counts}.`

function parsed(spelled: string, kind: SettingKind, text: string): string | number | boolean {
  const read = readSetting(kind, text)
  if (!read.ok) throw new VerbError(`${spelled} wants ${read.wants}, not ${JSON.stringify(text)}.`)
  return read.value
}
