import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { settingNames, settingsPatch } from '../../src/contract/settings.ts'
import { defaultPreferences, writePreferences } from '../../src/main/preferences.ts'

const startFile = z.record(z.string(), z.unknown())

/** The files of an app in which a person has set this: its own preferences, the settings of its agent, what that is started with. */
export async function writeAppState(stateDir: string, set: Readonly<Record<string, unknown>>): Promise<void> {
  const isOwn = (name: string) => name in defaultPreferences
  const isPersons = (name: string, value: unknown) =>
    settingNames.some((one) => one === name) && settingsPatch.safeParse({ [name]: value }).success
  const named = Object.entries(set)
  const own = named.filter(([name]) => isOwn(name))
  const persons = named.filter(([name, value]) => !isOwn(name) && isPersons(name, value))
  const started = named.filter(([name, value]) => !isOwn(name) && !isPersons(name, value))
  await writePreferences(stateDir, { ...defaultPreferences, ...Object.fromEntries(own) })
  const settings = { schema: 1, settings: Object.fromEntries(persons) }
  await writeFile(path.join(stateDir, 'settings.json'), JSON.stringify(settings), { mode: 0o600 })
  const file = path.join(stateDir, 'start-settings.json')
  const before = startFile.parse(JSON.parse(await readFile(file, 'utf8').catch(() => '{}')))
  await writeFile(file, JSON.stringify({ ...before, ...Object.fromEntries(started) }), { mode: 0o600 })
}
