import type { ServerChange } from '../memory/ways-to-fit.ts'
import type { Models } from '../models/models.ts'
import type { InferenceServiceSpec } from '../kube/resources.ts'
import {
  launchEnvironment,
  type DaemonLaunch,
  type GeneralRules,
  type Launch,
  type PortPolicy,
  type ServerLaunch,
} from '../servers/launch.ts'
import { filesIn, startProblem } from '../runtimes/argument-policy.ts'
import type { Dialect, Dialects } from '../runtimes/dialect.ts'
import type { CommandInput, DaemonRuntime, ProcessRuntime, Runtime } from '../runtimes/runtime.ts'
import { runtimes } from '../runtimes/runtimes.ts'
import { loopback } from '../servers/listening.ts'
import { daemonMemoryOf } from '../servers/served-model.ts'
import type { ServerRuntime } from '../servers/probe.ts'
import type { Executable } from '../util/find-executable.ts'
import { refKey } from '../util/object-key.ts'
import { chooseRuntime, environmentOf, type RuntimeSettings } from './runtime-choice.ts'
import type { ServerFiles } from './model-request.ts'
import type { DesiredServer } from './reading.ts'
import type { StartFailure } from './server-view.ts'
import { sideFileStamp, sizeUp, sizeUpFolder, type Need } from './sizing.ts'

export interface LaunchSettings extends RuntimeSettings {
  readonly port: (runtime: ServerRuntime) => PortPolicy
  /** Where a server of the runtime that is started now for this service listens. */
  readonly host: (runtime: ProcessRuntime, key: string) => string
  /** The port at which a daemon listens on loopback. */
  readonly daemonPort: (runtime: DaemonRuntime) => number
  /** Tells what this agent makes in a daemon from what others do. */
  readonly owner: string
  /** For every server of the runtime, as they are at its start. */
  readonly rules: (runtime: Runtime) => GeneralRules
}

export interface ServerLaunchesOptions {
  readonly settings: LaunchSettings
  readonly models: Pick<Models, 'header'>
  readonly dialects: Dialects
  readonly findBinary: (runtime: Runtime) => Promise<Executable>
  /** Whether a spec of the namespace may name this file; links are followed. */
  readonly allowsFile: (path: string, namespace: string) => Promise<boolean>
  /** The GPU shares the memory of this machine. */
  readonly metal: boolean
}

/** What a start of the desired server would be made of. */
export interface PreparedServer {
  readonly desiredServer: DesiredServer
  readonly runtime: Runtime
  readonly model: ServerFiles
  readonly binary: Executable
  readonly env: Readonly<Record<string, string>>
  /** Absent where there is no binary to ask, and for a daemon. */
  readonly dialect: Dialect | undefined
}

/** Turns a desired server into a command line and into the memory that it will hold, from the same arguments. */
export class ServerLaunches {
  readonly chooseRuntime: ReturnType<typeof chooseRuntime>
  readonly #options: ServerLaunchesOptions

  constructor(options: ServerLaunchesOptions) {
    this.#options = options
    this.chooseRuntime = chooseRuntime(options.settings)
  }

  /** Asks llama-server in advance, so that the first start does not wait for its answer. */
  async learnDialect(): Promise<void> {
    const runtime = runtimes['llama-server']
    const binary = await this.#options.findBinary(runtime)
    if (binary.kind === 'found') await this.#options.dialects.of(runtime, binary.path, launchEnvironment())
  }

  findBinary(runtime: ServerRuntime): Promise<Executable> {
    return this.#options.findBinary(runtimes[runtime])
  }

  async prepare(desiredServer: DesiredServer, model: ServerFiles, binary: Executable): Promise<PreparedServer> {
    const runtime: Runtime = runtimes[desiredServer.runtime]
    if (runtime.kind === 'daemon') return { desiredServer, runtime, model, binary, env: {}, dialect: undefined }
    const asked = environmentOf(desiredServer.spec, this.#options.settings.policy.allowedEnv)
    const env = launchEnvironment({ ...asked, ...runtime.environment })
    const dialect =
      binary.kind === 'found' ? await this.#options.dialects.of(runtime, binary.path, launchEnvironment()) : undefined
    return { desiredServer, runtime, model, binary, env, dialect }
  }

  /** Why this machine does not start it. */
  async startProblem(prepared: PreparedServer, executable: string): Promise<StartFailure | undefined> {
    const { settings, allowsFile } = this.#options
    const { desiredServer, runtime, model, dialect } = prepared
    const problem = dialect?.problem
    const message = problem === undefined ? await runtime.modelProblem(model.path) : `${executable} ${problem}`
    if (message !== undefined) return { message }
    if (runtime.kind === 'daemon') return undefined
    const refused = await startProblem(desiredServer.spec.extraArgs, {
      policy: settings.policy,
      flags: runtime.flags,
      executable,
      known: dialect?.flags,
      allowsFile: (path) => allowsFile(path, desiredServer.service.metadata.namespace),
    })
    return refused === undefined ? undefined : { message: refused, refusal: 'ExtraArgsRejected' }
  }

  /** Tells one need from another: what is worked out for one server holds as long as this is the same. */
  async needKey(prepared: PreparedServer): Promise<string> {
    const { desiredServer, runtime, model, env } = prepared
    // The context bounds nothing in the command line of mlx-lm, and is counted all the same.
    const sides =
      runtime.sizing === 'gguf'
        ? await sideFileStamp(this.#argv(prepared, {}), env)
        : `context ${desiredServer.spec.contextSize ?? ''}`.trimEnd()
    return `${desiredServer.digest} ${model.path} ${model.revision} ${sides}`.trimEnd()
  }

  /** What the server will hold. Never rejects. */
  async sizeUp(prepared: PreparedServer, of: string): Promise<Need> {
    const { runtime } = prepared
    const need = await this.#sizeUp(prepared, of)
    if (runtime.kind !== 'daemon') return need
    const { name: model, files, isOurs } = this.#contentFor(prepared, runtime)
    return { ...need, daemonMemory: daemonMemoryOf({ ...this.#daemonOf(runtime), model, isOurs }, files) }
  }

  #sizeUp(prepared: PreparedServer, of: string): Promise<Need> {
    const { desiredServer, runtime, model, env } = prepared
    const { models, metal } = this.#options
    if (runtime.sizing === 'safetensors') {
      const spec = (change: ServerChange) => changed(desiredServer.spec, change)
      return sizeUpFolder({ of, folder: model.path, spec, metal })
    }
    return sizeUp({
      ...{ of, models, model, env, metal },
      status: desiredServer.modelStatus,
      argv: (change) => this.#argv(prepared, change),
    })
  }

  #argv(prepared: PreparedServer, change: ServerChange): string[] {
    const { desiredServer, runtime } = prepared
    return runtime.argv({ ...this.#given(prepared), spec: changed(desiredServer.spec, change), port: 0 })
  }

  /** What the whole command line is made of, for whatever purpose. */
  #given({ desiredServer: { spec, model }, model: file, dialect }: PreparedServer): Omit<CommandInput, 'port'> {
    const { performanceCores } = this.#options.settings
    return { spec, model, performanceCores, modelPath: file.path, mmproj: file.mmproj, draft: file.draft, dialect }
  }

  launch(prepared: PreparedServer, executable: string, need: Need): Launch {
    const { runtime } = prepared
    return runtime.kind === 'daemon'
      ? this.#load(prepared, runtime, need)
      : this.#process(prepared, runtime, executable, need)
  }

  #load(prepared: PreparedServer, runtime: DaemonRuntime, { estimate }: Need): DaemonLaunch {
    const { settings } = this.#options
    const { desiredServer } = prepared
    const content = this.#contentFor(prepared, runtime)
    return {
      uid: desiredServer.service.metadata.uid,
      digest: desiredServer.digest,
      runtime: runtime.name,
      daemon: this.#daemonOf(runtime),
      content,
      port: settings.port(runtime.name),
      ...settings.rules(runtime),
      files: content.files,
      ...(estimate && { needBytes: estimate.total }),
    }
  }

  #daemonOf(runtime: DaemonRuntime) {
    return { host: loopback, port: this.#options.settings.daemonPort(runtime) }
  }

  #contentFor(prepared: PreparedServer, runtime: DaemonRuntime) {
    const { owner } = this.#options.settings
    const { revision } = prepared.model
    return runtime.content({ ...this.#given(prepared), port: 0, revision, owner })
  }

  #process(prepared: PreparedServer, runtime: ProcessRuntime, executable: string, need: Need): ServerLaunch {
    const { settings } = this.#options
    const { desiredServer, model, env, dialect } = prepared
    const { estimate } = need
    const host = settings.host(runtime, refKey(desiredServer.service.metadata))
    const argv = (port: number): string[] =>
      runtime.argv({
        ...this.#given(prepared),
        ...{ host, port },
        alias: desiredServer.spec.modelRef || undefined,
        ...(dialect?.boundsPromptCache === true && { promptCacheMiB: estimate?.cacheRamThatHolds }),
      })
    return {
      uid: desiredServer.service.metadata.uid,
      digest: desiredServer.digest,
      runtime: runtime.name,
      executable,
      argv,
      localCommand: (port, workingDirectory) => runtime.localCommand(argv(port), workingDirectory),
      env,
      port: settings.port(runtime.name),
      ...settings.rules(runtime),
      sleepsWhenIdle: runtime.sleepsWhenIdle(desiredServer.spec),
      files: [
        model.path,
        ...[model.mmproj, model.draft].filter((file) => file !== undefined),
        ...filesIn(desiredServer.spec.extraArgs, runtime.flags.table),
      ],
      ...(estimate && { needBytes: estimate.total, mappedBytes: estimate.mappedBytes ?? 0 }),
    }
  }
}

/** The spec with the change, as a person would have to write it. */
const changed = (spec: InferenceServiceSpec, { contextTokens, kvType, slots }: ServerChange): InferenceServiceSpec => ({
  ...spec,
  ...(contextTokens !== undefined && { contextSize: contextTokens }),
  ...(slots !== undefined && { parallelSlots: slots }),
  ...(kvType !== undefined && {
    cacheTypeK: kvType,
    cacheTypeV: kvType,
    cacheTypeCustomK: undefined,
    cacheTypeCustomV: undefined,
  }),
})
