import { z } from 'zod'
import {
  settingNames,
  settingsPatch,
  type SettingName,
  type SettingsPatch,
  type SettingView,
} from '../contract/settings.ts'
import type { DownloadSettings } from './models/remote.ts'
import type { AgentSettings } from './settings.ts'
import { StateFile } from './state/state-file.ts'

const personFile = z.object({
  schema: z.literal(1),
  settings: settingsPatch,
  /** Of the kubeconfig. */
  context: z.string().optional(),
  hostAddress: z.ipv4().optional(),
})
type PersonFile = z.infer<typeof personFile>

/** From when a change counts. */
type Counts = 'now' | 'nextDownload' | 'nextServer' | 'nextAgent'

interface Setting {
  readonly help: string
  readonly counts: Counts
  readonly of: (settings: AgentSettings) => string | number | boolean | null
}

/** Completes "<setting> …" and "It …". */
const countsText: Readonly<Record<Counts, string>> = {
  now: 'counts at once',
  nextDownload: 'counts for each download from its start',
  nextServer: 'counts for each server from its next start',
  nextAgent: 'counts from the next start of the agent',
}

const settings: Readonly<Record<SettingName, Setting>> = {
  llamaServer: {
    help: 'Path of the llama-server binary; null = looked for in the usual places.',
    counts: 'nextServer',
    of: ({ llamaServer }) => llamaServer ?? null,
  },
  namespace: {
    help: 'Namespace whose InferenceServices are watched; null = all.',
    counts: 'nextAgent',
    of: ({ namespace }) => namespace ?? null,
  },
  drainLimitMs: {
    help: 'Longest wait for requests in flight before a server is ended, in milliseconds.',
    counts: 'nextServer',
    of: ({ drainTimeoutMs }) => drainTimeoutMs,
  },
  startupStallMs: {
    help: 'Longest time that a start may go without progress, in milliseconds.',
    counts: 'nextServer',
    of: ({ llamaServerStartupTimeoutMs }) => llamaServerStartupTimeoutMs,
  },
  serverLogBytes: {
    help: "Bytes of one file of a server's output.",
    counts: 'nextAgent',
    of: ({ serverLogBytes }) => serverLogBytes,
  },
  serverLogFiles: {
    help: "How many older files of a server's output are kept.",
    counts: 'nextAgent',
    of: ({ serverLogCount }) => serverLogCount,
  },
  downloadBytesPerSecond: {
    help: 'Of all downloads together, in bytes per second; 0 = no limit.',
    counts: 'now',
    of: ({ downloadBytesPerSecond }) => downloadBytesPerSecond,
  },
  downloadsAtOnce: {
    help: 'How many models are downloaded at the same time; the others wait.',
    counts: 'now',
    of: ({ downloadsAtOnce }) => downloadsAtOnce,
  },
  hubEndpoint: {
    help: 'Address of the Hugging Face Hub or of a mirror; null = HF_ENDPOINT, else the public Hub.',
    counts: 'nextDownload',
    of: ({ hubEndpoint }) => hubEndpoint ?? null,
  },
  hubTokenFile: {
    help: "File that holds the Hub's token; null = HF_TOKEN, else the file that hf auth login writes.",
    counts: 'nextDownload',
    of: ({ hubTokenFile }) => hubTokenFile ?? null,
  },
  caFile: {
    help: 'PEM file of certificate authorities that downloads trust beside the usual ones.',
    counts: 'nextDownload',
    of: ({ caFile }) => caFile ?? null,
  },
  diskReserveBytes: {
    help: "Bytes of the model store's volume that downloads leave free; 0 = the smaller of 2 GiB and 1 % of it.",
    counts: 'nextDownload',
    of: ({ diskReserveBytes }) => diskReserveBytes,
  },
  partialKeepMs: {
    help: 'How long the rest of a download that was cut short is kept, in milliseconds.',
    counts: 'now',
    of: ({ partialKeepMs }) => partialKeepMs,
  },
  refreshEveryMs: {
    help: 'How often the source of a Model with refreshPolicy OnChange is asked for changes, in milliseconds.',
    counts: 'now',
    of: ({ refreshEveryMs }) => refreshEveryMs,
  },
  memoryFraction: {
    help: 'Fraction of all memory that models may hold together; 0 = automatic.',
    counts: 'now',
    of: ({ memoryFraction }) => memoryFraction,
  },
  memoryBudgetBytes: {
    help: 'Bytes that models may hold together, instead of a fraction; null = the fraction counts.',
    counts: 'now',
    of: ({ memoryBudgetBytes }) => memoryBudgetBytes ?? null,
  },
  memoryCheckMode: {
    help: 'Whether a start whose memory cannot be checked is refused (enforce) or let pass (warn).',
    counts: 'now',
    of: ({ memoryCheckMode }) => memoryCheckMode,
  },
  evictionEnabled: {
    help: 'Whether the least important model leaves memory when that is critically short.',
    counts: 'now',
    of: ({ evictionEnabled }) => evictionEnabled,
  },
  evictionShare: {
    help: 'Fraction of all memory that models must hold before one of them is evicted.',
    counts: 'now',
    of: ({ evictionShare }) => evictionShare,
  },
  evictionAtAdmission: {
    help: 'Whether models of lower priority are evicted so that one of higher priority can start.',
    counts: 'now',
    of: ({ evictionAtAdmission }) => evictionAtAdmission,
  },
  comeBackMs: {
    help: 'How long memory pressure must have been normal before what was evicted comes back, in milliseconds.',
    counts: 'now',
    of: ({ comeBackMs }) => comeBackMs,
  },
  logLevel: {
    help: 'How much the agent writes to its own log: debug, info, warn or error.',
    counts: 'now',
    of: ({ logLevel }) => logLevel,
  },
}

/** What the agent was started with, and what a person set since; a flag wins, since the service manager states it at every start. */
export class PersonSettings {
  readonly #started: AgentSettings
  readonly #file: StateFile<PersonFile>

  private constructor(started: AgentSettings, file: StateFile<PersonFile>) {
    this.#started = started
    this.#file = file
  }

  /** Throws StateFileError. */
  static async open(started: AgentSettings, file: string): Promise<PersonSettings> {
    return new PersonSettings(
      started,
      await StateFile.open({
        file,
        schema: personFile,
        initial: { schema: 1, settings: {} },
        keeps: 'what was set while the agent ran, its context and host address included,',
      }),
    )
  }

  get notice(): string | undefined {
    return this.#file.notice
  }

  /** What counts now, whichever of it is in effect already. */
  get current(): AgentSettings {
    const { settings: set, context } = this.#file.value
    const own = new Set<SettingName>(settingNames.filter((name) => this.#isPersons(name)))
    return {
      ...this.#started,
      ...(own.has('llamaServer') && { llamaServer: set.llamaServer ?? undefined }),
      ...(own.has('namespace') && { namespace: set.namespace ?? undefined }),
      ...(own.has('startupStallMs') &&
        set.startupStallMs != null && { llamaServerStartupTimeoutMs: set.startupStallMs }),
      ...(own.has('drainLimitMs') && set.drainLimitMs != null && { drainTimeoutMs: set.drainLimitMs }),
      ...(own.has('serverLogBytes') && set.serverLogBytes != null && { serverLogBytes: set.serverLogBytes }),
      ...(own.has('serverLogFiles') && set.serverLogFiles != null && { serverLogCount: set.serverLogFiles }),
      ...pick(own, set, [
        'downloadBytesPerSecond',
        'downloadsAtOnce',
        'diskReserveBytes',
        'partialKeepMs',
        'refreshEveryMs',
        'hubEndpoint',
        'hubTokenFile',
        'caFile',
        'memoryFraction',
        'memoryBudgetBytes',
        'memoryCheckMode',
        'evictionEnabled',
        'evictionShare',
        'evictionAtAdmission',
        'comeBackMs',
      ]),
      ...(own.has('logLevel') && set.logLevel != null && { logLevel: set.logLevel }),
      context: this.#started.context ?? context,
    }
  }

  /** Stated by `--context`, so that no other may be chosen. */
  get hasContextFlag(): boolean {
    return this.#started.context !== undefined
  }

  /** What shall be published, whoever said so; automatic = chosen among this host's addresses. */
  get hostAddress(): { readonly by: 'flag' | 'person'; readonly address: string } | { readonly by: 'automatic' } {
    const { hostAddress } = this.#file.value
    if (this.#started.hostIp !== undefined) return { by: 'flag', address: this.#started.hostIp }
    return hostAddress === undefined ? { by: 'automatic' } : { by: 'person', address: hostAddress }
  }

  views(): SettingView[] {
    const current = this.current
    return settingNames.map((name) => {
      const { help, counts, of } = settings[name]
      const from = this.#isGiven(name) ? 'flag' : this.#isPersons(name) ? 'person' : 'default'
      return { name, value: of(current), from, help: `${help} A change ${countsText[counts]}.` }
    })
  }

  /** The first of the patch that a flag states, so that nobody else may. */
  statedByFlag(patch: SettingsPatch): SettingName | undefined {
    return namesIn(patch).find((name) => this.#isGiven(name))
  }

  /** One sentence per setting. Throws StateFileError. */
  async update(patch: SettingsPatch): Promise<string> {
    await this.#file.update((value) => ({ ...value, settings: withoutDefaults({ ...value.settings, ...patch }) }))
    return namesIn(patch)
      .map((name) => `${name} is set and ${countsText[settings[name].counts]}.`)
      .join(' ')
  }

  async chooseContext(context: string): Promise<void> {
    await this.#file.update((value) => ({ ...value, context }))
  }

  async chooseHostAddress(hostAddress: string | undefined): Promise<void> {
    await this.#file.update((value) => ({ ...value, hostAddress }))
  }

  #isGiven(name: SettingName): boolean {
    return this.#started.givenByFlags.includes(name)
  }

  #isPersons(name: SettingName): boolean {
    return !this.#isGiven(name) && this.#file.value.settings[name] !== undefined
  }
}

/** What a person set of downloads, for who works on the store while no agent runs. Throws StateFileError. */
export async function personsDownloads(file: string): Promise<Partial<DownloadSettings>> {
  const kept = await StateFile.open({
    file,
    schema: personFile,
    initial: { schema: 1, settings: {} },
    keeps: 'what was set while the agent ran',
  })
  const { downloadBytesPerSecond: bytesPerSecond, diskReserveBytes: reserveBytes, ...set } = kept.value.settings
  const { partialKeepMs, hubEndpoint, hubTokenFile, caFile } = set
  const stated = { bytesPerSecond, reserveBytes, partialKeepMs, hubEndpoint, hubTokenFile, caFile }
  return Object.fromEntries(Object.entries(stated).filter(([, value]) => value != null))
}

/** Those of these settings that a person set; their names and meanings are the agent's own. */
const pick = (
  own: ReadonlySet<SettingName>,
  set: SettingsPatch,
  names: readonly (SettingName & keyof AgentSettings)[],
): Partial<AgentSettings> => Object.fromEntries(names.filter((name) => own.has(name)).map((name) => [name, set[name]]))

/** Null goes back to the default, but for the namespace, where it means all of them. */
const withoutDefaults = (set: SettingsPatch): SettingsPatch =>
  settingsPatch.parse(
    Object.fromEntries(Object.entries(set).filter(([name, value]) => value !== null || name === 'namespace')),
  )

const namesIn = (patch: SettingsPatch): SettingName[] => settingNames.filter((name) => patch[name] !== undefined)
