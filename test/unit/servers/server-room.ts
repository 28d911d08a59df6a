import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Logger } from '../../../src/agent-core/observability/logger.ts'
import { askActivity, serverProtocols, type HealthProbe } from '../../../src/agent-core/servers/probe.ts'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { launchEnvironment, type ServerLaunch } from '../../../src/agent-core/servers/launch.ts'
import type { ServerState } from '../../../src/agent-core/servers/server-state.ts'
import { Ledger } from '../../../src/agent-core/servers/ledger.ts'
import { Servers, type ServersOptions } from '../../../src/agent-core/servers/servers.ts'
import { eventually } from '../../support/eventually.ts'
import { sampleServerPath, sampleScriptArgs, type SampleScript } from '../../support/sample-servers/sample.ts'

export const platform = hostPlatform()

const silent: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

/** Servers of llama-server whose health is asked for so. */
export const probedBy = (probe: HealthProbe): Pick<ServersOptions, 'protocols'> => {
  const llamaServer = { ...serverProtocols['llama-server'], readiness: () => probe, health: probe }
  return { protocols: { ...serverProtocols, 'llama-server': llamaServer } }
}

type StateOf<K extends ServerState['kind']> = Extract<ServerState, { kind: K }>

/** The tests that ask for its pid start a process, which has one from then on. */
type OfProcess<State> = State extends { kind: 'ready' | 'loading' } ? State & { readonly pid: number } : State

/** Real servers in a folder of their own; nothing of them is left after the test. */
export class ServerRoom implements AsyncDisposable {
  readonly folder: string
  readonly ledger: Ledger
  readonly servers: Servers
  readonly changes: { key: string; state: ServerState }[] = []

  private constructor(folder: string, options: Partial<ServersOptions>) {
    this.folder = folder
    this.ledger = new Ledger({ file: join(folder, 'ledger.json'), platform, log: silent })
    const fixed = { platform, ledger: this.ledger, stateDir: folder, log: silent }
    this.servers = new Servers({ ...fixed, random: () => 0.5, ...options })
    this.servers.onChange((key, state) => this.changes.push({ key, state }))
  }

  static async create(options: Partial<ServersOptions> = {}): Promise<ServerRoom> {
    return new ServerRoom(await mkdtemp(join(tmpdir(), 'servers-')), options)
  }

  launch(script: SampleScript = {}, changes: Partial<ServerLaunch> = {}): ServerLaunch {
    return {
      uid: 'uid-1',
      digest: 'digest-1',
      executable: sampleServerPath,
      argv: (port) => [
        '--host',
        '0.0.0.0',
        '--port',
        String(port),
        '--model',
        'tiny.gguf',
        ...sampleScriptArgs(script),
      ],
      env: launchEnvironment(),
      port: { kind: 'ephemeral' },
      stopGraceMs: 5_000,
      ...changes,
    }
  }

  start(script?: SampleScript, changes?: Partial<ServerLaunch>, key = 'a/b'): void {
    this.servers.start(key, this.launch(script, changes))
  }

  /** The working directory and the output file of the run that goes on, or was the last. */
  files(key = 'a/b'): { workingDirectory: string; logFile: string } {
    const logFile = this.servers.logFileOf(key)
    if (logFile === undefined) throw new Error(`${key} has no run.`)
    return { workingDirectory: join(dirname(logFile), 'work'), logFile }
  }

  /** Waits until the server is in this state, however shortly it was; looks at changes from `from` on. */
  async reached<K extends ServerState['kind']>(
    kind: K,
    {
      key = 'a/b',
      from = 0,
      where = () => true,
    }: { key?: string; from?: number; where?: (state: StateOf<K>) => boolean } = {},
  ): Promise<OfProcess<StateOf<K>>> {
    const matches = (state: ServerState): state is StateOf<K> => state.kind === kind
    return eventually(
      () => {
        const states = this.changes.slice(from).flatMap((change) => (change.key === key ? [change.state] : []))
        const found = states.filter(matches).find(where)
        if (found === undefined) throw new Error(`states so far: ${JSON.stringify(states, undefined, 1)}`)
        return found as OfProcess<StateOf<K>>
      },
      { what: `${key} being ${kind}` },
    )
  }

  settled(key?: string): Promise<StateOf<'exited'>> {
    return this.reached('exited', { ...(key === undefined ? {} : { key }), where: ({ settled }) => settled })
  }

  kinds(): string[] {
    return this.changes.map(({ state }) => (state.kind === 'exited' && state.settled ? 'settled' : state.kind))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.servers.stopAll({ graceMs: 0, drainMs: 0 })
    await this.ledger.close()
    await rm(this.folder, { recursive: true, force: true })
  }
}

export const livingPids = async (groupId: number): Promise<number[]> =>
  (await platform.processGroup(groupId)).map(({ pid }) => pid)

/** One completion; `cut` where the connection ended before the answer did. */
export const ask = (port: number, options: { readonly max_tokens?: number } = {}): Promise<'answered' | 'cut'> =>
  fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], max_tokens: 20, stream: true, ...options }),
  })
    .then((answer) => answer.text())
    .then(
      (text) => (text.trimEnd().endsWith('data: [DONE]') ? 'answered' : 'cut'),
      () => 'cut',
    )

export async function untilInFlight(port: number, requests = 1): Promise<void> {
  await eventually(async () => {
    const activity = await askActivity(port, 2_000)
    return activity.kind === 'counted' && activity.requests === requests
  })
}
