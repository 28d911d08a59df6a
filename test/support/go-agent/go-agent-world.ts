import { spawn } from 'node:child_process'
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import path from 'node:path'
import { build } from 'plist'
import type { InstallationHost } from '../../../src/installation/installation-host.ts'
import { serviceLabel } from '../../../src/installation/service/service-plan.ts'
import { AgentWorld, fakeGguf } from '../agent-world.ts'
import type { ClusterConnection } from '../control-plane/admin-client.ts'
import { writeKubeconfig } from '../control-plane/kubeconfig.ts'
import { eventually } from '../eventually.ts'
import { freePort } from '../free-port.ts'
import { sampleServerPath } from '../sample-servers/sample.ts'

/** Of the documentation network, so that it is no address of this machine. */
export const goHostIp = '192.0.2.10'

const goLabel = 'com.llmkube.metal-agent'
const standIn = path.join(import.meta.dirname, 'stand-in.mjs')
const launchctl = path.join(import.meta.dirname, 'launchctl.mjs')

/** Questions are answered without Node.js, which would take longer than all the rest. */
const launchctlScript = `#!/bin/sh
[ "$1" = print ] || exec "${process.execPath}" "${launchctl}" "$@"
read -r pid file 2>/dev/null < "$HOME/launchd/\${2##*/}" || exit 113
case "$(cat /proc/$pid/stat 2>/dev/null)" in
  "" | *") Z "*) printf '%s = {\\n\\tpath = %s\\n\\tstate = not running\\n}\\n' "$2" "$file" ;;
  *) printf '%s = {\\n\\tpath = %s\\n\\tstate = running\\n\\tpid = %s\\n}\\n' "$2" "$file" "$pid" ;;
esac
`

export interface GoAgentOptions {
  /** Of the Go agent; absent = 0.9.19. */
  readonly version?: string | undefined
  readonly annotations?: Readonly<Record<string, string>> | undefined
  /** Beside those that it needs here. */
  readonly args?: readonly string[]
}

/** A machine on which launchd keeps a Go agent: plist, store, launchctl and a service of ours that can be installed. */
export class GoAgentWorld implements AsyncDisposable {
  readonly cluster: AgentWorld
  readonly home: string
  readonly store: string
  readonly plistFile: string
  readonly healthPort: number

  private constructor(cluster: AgentWorld, healthPort: number) {
    this.cluster = cluster
    this.healthPort = healthPort
    this.home = path.join(cluster.folder, 'home')
    this.store = path.join(cluster.folder, 'llmkube-models')
    this.plistFile = path.join(this.home, 'Library/LaunchAgents', `${goLabel}.plist`)
  }

  /** `controller: false` leaves out the stand-in for LLMKube's. */
  static async open(connection: ClusterConnection, { controller = true } = {}): Promise<GoAgentWorld> {
    const world = new GoAgentWorld(await AgentWorld.open(connection, { controller }), await freePort())
    await mkdir(path.dirname(world.plistFile), { recursive: true })
    await mkdir(world.bin, { recursive: true })
    await writeFile(
      world.program,
      `#!/bin/bash\nGO_AGENT_PROGRAM="$0" exec -a "$0" "${process.execPath}" "${standIn}" "$@"\n`,
      {
        mode: 0o755,
      },
    )
    const asLaunchctl = path.join(world.bin, 'launchctl')
    await writeFile(asLaunchctl, launchctlScript)
    await chmod(asLaunchctl, 0o755)
    await writeKubeconfig(world.kubeconfig, connection)
    return world
  }

  get bin(): string {
    return path.join(this.cluster.folder, 'bin')
  }
  get program(): string {
    return path.join(this.bin, 'llmkube-metal-agent')
  }
  get kubeconfig(): string {
    return path.join(this.cluster.folder, 'go.kubeconfig')
  }
  get host(): InstallationHost {
    const { uid, gid, username } = userInfo()
    return {
      platform: 'darwin',
      env: { HOME: this.home, PATH: process.env['PATH'] },
      user: { name: username, id: uid, groupId: gid, homeDir: this.home },
      isRoot: false,
      systemRoot: path.join(this.cluster.folder, 'root'),
      programFolders: [this.bin, path.dirname(process.execPath), '/usr/bin', '/bin'],
    }
  }

  /** A model in the Go agent's store, a Model and the service that serves it. */
  async apply(name: string, { spec = {}, bytes = fakeGguf }: { spec?: object; bytes?: Buffer } = {}): Promise<void> {
    const folder = path.join(this.store, name)
    await mkdir(folder, { recursive: true })
    await writeFile(path.join(folder, 'tiny.gguf'), bytes)
    await this.cluster.apply(name, { spec: { ...spec } })
  }

  flags(more: readonly string[] = []): string[] {
    return [
      ...['--namespace', this.cluster.namespace, '--model-store', this.store, '--llama-server', sampleServerPath],
      ...['--port', String(this.healthPort), '--client-port', '0', '--host-ip', goHostIp],
      ...['--kubeconfig', this.kubeconfig, ...more],
    ]
  }

  async writePlist({ version, annotations, args = [] }: GoAgentOptions = {}, file = this.plistFile): Promise<void> {
    const environment = this.#environment({ version, annotations })
    const job = {
      Label: goLabel,
      ProgramArguments: [this.program, ...this.flags(args)],
      RunAtLoad: true,
      KeepAlive: { SuccessfulExit: false },
      StandardErrorPath: '/tmp/llmkube-metal-agent.log',
      EnvironmentVariables: environment,
    }
    await writeFile(file, build(job))
  }

  #environment({ version, annotations }: GoAgentOptions): Record<string, string> {
    return {
      PATH: `${path.dirname(process.execPath)}:/usr/bin:/bin`,
      GO_AGENT_STARTS: this.startsFile,
      ...(version !== undefined && { GO_AGENT_VERSION: version }),
      ...(annotations && { GO_AGENT_ANNOTATIONS: JSON.stringify(annotations) }),
    }
  }

  get startsFile(): string {
    return path.join(this.cluster.folder, 'go-agent.starts')
  }

  /** Pids of the servers that Go agents started for a service, oldest first. */
  async goStarts(name: string): Promise<number[]> {
    const text = await readFile(this.startsFile, 'utf8').catch(() => '')
    return text.split('\n').flatMap((line) => (line.startsWith(`${name} `) ? [Number(line.split(' ')[1])] : []))
  }

  /** As launchd would at login; waits until it serves these. */
  async startGoAgent(options: GoAgentOptions = {}, names: readonly string[] = []): Promise<void> {
    await this.writePlist(options)
    await this.launchctl('bootstrap', `gui/${this.host.user.id}`, this.plistFile)
    for (const name of names) await this.untilPublished(name)
  }

  async untilPublished(name: string): Promise<number> {
    const published = await eventually(async () => {
      const found = await this.cluster.published(name)
      return found?.ready === true ? found : undefined
    })
    return published.port
  }

  launchctl(...args: string[]): Promise<number> {
    const child = spawn(path.join(this.bin, 'launchctl'), args, { stdio: 'ignore', env: { HOME: this.home } })
    return new Promise((resolve) => child.once('exit', (code) => resolve(code ?? 1)))
  }

  /** Of the process that launchd started last; undefined where it has no such job. */
  async jobPid(label: string): Promise<number | undefined> {
    const text = await readFile(path.join(this.home, 'launchd', label), 'utf8').catch(() => undefined)
    if (text === undefined) return undefined
    return Number(text.split(' ')[0])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const label of [serviceLabel, goLabel]) await this.launchctl('bootout', `gui/${this.host.user.id}/${label}`)
    await this.cluster[Symbol.asyncDispose]()
  }
}
