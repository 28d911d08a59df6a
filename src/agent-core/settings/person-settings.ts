import { z } from 'zod'
import {
  editableRow,
  type SettingName,
  settingNames,
  settingsPatch,
  type SettingsPatch,
  type SettingView,
  spellingOf,
  type StartSettingView,
} from '../../contract/settings.ts'
import { ipAddress } from '../../contract/addresses.ts'
import { countsTexts } from '../../contract/settings-table.ts'
import { shownSource } from '../models/source.ts'
import { StateFile } from '../state/state-file.ts'
import { type AgentSettings, originOf, startViews } from './settings.ts'

/** What another build wrote stays in the file until a person sets it again; {@link readRows} says which of it counts here. */
const personFile = z.looseObject({ schema: z.literal(1), settings: z.record(z.string(), z.unknown()) })
type PersonFile = z.infer<typeof personFile>

/** A context of the kubeconfig. */
const context = z.string({ error: 'must be the name of a context' }).optional()
const hostAddress = ipAddress.optional()

/** What of the file counts here. */
interface Persons {
  readonly settings: SettingsPatch
  readonly context: string | undefined
  readonly hostAddress: string | undefined
  /** What was left out, and why, as sentences. */
  readonly notices: readonly string[]
}

/** What the agent was started with, and what a person set since; a flag wins, since the service manager states it at every start. */
export class PersonSettings {
  readonly #started: AgentSettings
  readonly #file: StateFile<PersonFile>
  /** What a person should know about the file, as sentences. */
  readonly notices: readonly string[]
  #persons: Persons
  #revision = 0

  private constructor(started: AgentSettings, file: StateFile<PersonFile>) {
    this.#started = started
    this.#file = file
    this.#persons = readRows(file)
    this.notices = [...(file.notice === undefined ? [] : [file.notice]), ...this.#persons.notices]
  }

  /** Throws StateFileError. */
  static async open(started: AgentSettings, file: string): Promise<PersonSettings> {
    return new PersonSettings(started, await openPersonFile(file))
  }

  /** For who changes nothing: a file that cannot be read or understood stays as it is. */
  static async look(started: AgentSettings, file: string): Promise<PersonSettings> {
    return new PersonSettings(started, await openPersonFile(file, true))
  }

  /** Another one after each update. */
  get revision(): number {
    return this.#revision
  }

  /** What counts now, whichever of it is in effect already. */
  get current(): AgentSettings {
    return this.with({})
  }

  /** The effective settings once the patch is applied. */
  with(patch: SettingsPatch): AgentSettings {
    const { settings, context } = this.#persons
    const set = { ...settings, ...patch }
    const persons = settingNames
      .filter((name) => !this.#isGiven(name) && isSet(name, set[name]))
      .map((name) => [name, set[name] ?? undefined])
    return {
      ...this.#started,
      ...(Object.fromEntries(persons) as Partial<AgentSettings>),
      context: this.#started.context ?? context,
    }
  }

  /** Stated by `--context`, so that no other may be chosen. */
  get hasContextFlag(): boolean {
    return this.#started.context !== undefined
  }

  /** The address to publish, from the flag or the person's setting; automatic = chosen among this host's addresses. */
  get hostAddress(): { readonly by: 'flag' | 'person'; readonly address: string } | { readonly by: 'automatic' } {
    const { hostAddress } = this.#persons
    if (this.#started.hostIp !== undefined) return { by: 'flag', address: this.#started.hostIp }
    return hostAddress === undefined ? { by: 'automatic' } : { by: 'person', address: hostAddress }
  }

  views(): SettingView[] {
    const current = this.current
    return settingNames.map((name) => {
      const from = originOf(name, this.#started, this.#isPersons(name))
      return { name, value: shownValue(name, current[name] ?? null), from }
    })
  }

  /** Views of the settings that are read only at the start. */
  startViews(): StartSettingView[] {
    const { context, hostAddress: hostIp } = this.#persons
    return startViews(this.#started, { context, hostIp })
  }

  /** The app's start file, which stands in for flags; undefined if the agent was started with flags. */
  get startFile(): string | undefined {
    return this.#started.startFile?.path
  }

  /** The first setting of the patch that a flag fixes, so that it cannot be changed. */
  statedByFlag(patch: SettingsPatch): SettingName | undefined {
    return namesIn(patch).find((name) => this.#isGiven(name))
  }

  /**
   * What sets these settings back to what they are now; undefined where one of them was never set and has no value that says so, or has
   * a value with something in it that is shown to nobody.
   */
  personsOf(patch: SettingsPatch): SettingsPatch | undefined {
    const { settings } = this.#persons
    const names = namesIn(patch)
    const isKept = (name: SettingName) =>
      settings[name] === undefined ? isSet(name, null) : shownValue(name, settings[name]) !== settings[name]
    if (names.some(isKept)) return undefined
    return settingsPatch.parse(Object.fromEntries(names.map((name) => [name, settings[name] ?? null])))
  }

  /** The patch as people may read it: passwords in its values are left out. */
  shownPatch(patch: SettingsPatch): SettingsPatch {
    return Object.fromEntries(namesIn(patch).map((name) => [name, shownValue(name, patch[name] ?? null)]))
  }

  /** One sentence per setting. Throws StateFileError. */
  async update(patch: SettingsPatch): Promise<string> {
    const unset = new Set<string>(namesIn(patch).filter((name) => !isSet(name, patch[name])))
    await this.#change((value) => {
      const rows = Object.entries({ ...value.settings, ...patch })
      return { ...value, settings: Object.fromEntries(rows.filter(([name]) => !unset.has(name))) }
    })
    this.#revision += 1
    return namesIn(patch)
      .map((name) => `${spellingOf(name)} is set and ${countsTexts[editableRow(name).counts]}.`)
      .join(' ')
  }

  async chooseContext(context: string): Promise<void> {
    await this.#change((value) => ({ ...value, context }))
  }

  async chooseHostAddress(hostAddress: string | undefined): Promise<void> {
    await this.#change((value) => ({ ...value, hostAddress }))
  }

  async #change(change: (value: PersonFile) => PersonFile): Promise<void> {
    await this.#file.update(change)
    this.#persons = readRows(this.#file)
  }

  #isGiven(name: SettingName): boolean {
    return this.#started.givenByFlags.includes(name)
  }

  #isPersons(name: SettingName): boolean {
    return !this.#isGiven(name) && isSet(name, this.#persons.settings[name])
  }
}

/** An address may hold a password. */
const shownValue = (name: SettingName, value: SettingView['value']): SettingView['value'] =>
  name === 'hubEndpoint' && typeof value === 'string' ? shownSource(value) : value

/** Null is the default, but for what starts as something else: there it is a choice, such as all namespaces. */
const isSet = (name: SettingName, value: SettingsPatch[SettingName]): boolean =>
  value != null || (value === null && editableRow(name).startsAs !== undefined)

const openPersonFile = (file: string, isOnlyLookedAt = false): Promise<StateFile<PersonFile>> =>
  StateFile.open({
    ...{ file, isOnlyLookedAt },
    schema: personFile,
    initial: { schema: 1, settings: {} },
    keeps: 'what was set while the agent ran, its context and host address included,',
  })

/** Each row by itself: after the rollback from a newer build, one that this build does not take costs no other. */
function readRows({ file, value }: StateFile<PersonFile>): Persons {
  const notices: string[] = []
  function taken<Schema extends z.ZodType>(name: string, schema: Schema, found: unknown) {
    const parsed = schema.safeParse(found)
    if (parsed.success) return parsed.data
    const why = parsed.error.issues[0]?.message ?? 'cannot be used'
    notices.push(`${file}: "${name}" ${why}, and is ${shownRow(found)}: it is ignored until it is set again.`)
    return undefined
  }
  const known = settingNames.map((name) => [name, taken(name, settingsPatch.shape[name], value.settings[name])])
  const unknown = Object.keys(value.settings).filter((key) => !settingNames.some((name) => name === key))
  if (unknown.length > 0) {
    const names = unknown.slice(0, mostNamed).map((name) => JSON.stringify(name.slice(0, mostShown)))
    const more = unknown.length > mostNamed ? ` and ${unknown.length - mostNamed} more` : ''
    notices.push(`${file}: this build has no setting ${names.join(', ')}${more}, which is kept for one that has it.`)
  }
  return {
    settings: settingsPatch.parse(Object.fromEntries(known)),
    context: taken('context', context, value['context']),
    hostAddress: taken('hostAddress', hostAddress, value['hostAddress']),
    notices,
  }
}

/** A file of settings is a person's to edit: what stands in it may be anything. */
const mostNamed = 10
const mostShown = 100

/** An address may hold a password. */
const shownRow = (value: unknown): string =>
  JSON.stringify(typeof value === 'string' ? shownSource(value) : value).slice(0, mostShown)

const namesIn = (patch: SettingsPatch): SettingName[] => settingNames.filter((name) => patch[name] !== undefined)
