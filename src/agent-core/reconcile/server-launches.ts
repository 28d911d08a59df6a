import type { ServerChange } from '../memory/ways-to-fit.ts'
import type { LocalModel, Models } from '../models/models.ts'
import type { InferenceServiceSpec } from '../kube/resources.ts'
import { launchEnvironment, type GeneralRules, type PortPolicy, type ServerLaunch } from '../servers/launch.ts'
import { filesIn, startProblem, withLocalFiles } from '../runtimes/argument-policy.ts'
import { type Binary, LlamaServerDialects, type LlamaServerDialect } from '../runtimes/llama-server-binary.ts'
import { chooseRuntime, commandLine, environmentOf, type RuntimeSettings, sleepsWhenIdle } from './runtime-choice.ts'
import type { DesiredServer } from './reading.ts'
import { sideFileStamp, sizeUp, type Need } from './sizing.ts'

export interface LaunchSettings extends RuntimeSettings {
  readonly port: PortPolicy
  /** Where a server that is started now listens. */
  readonly host: () => string
  /** For every server, as they are at its start. */
  readonly rules: () => GeneralRules
}

export interface ServerLaunchesOptions {
  readonly settings: LaunchSettings
  readonly models: Pick<Models, 'header'>
  readonly findBinary: () => Promise<Binary>
  /** Whether a spec of the namespace may name this file; links are followed. */
  readonly allowsFile: (path: string, namespace: string) => Promise<boolean>
  /** The GPU shares the memory of this machine. */
  readonly metal: boolean
}

/** What a start of the desired server would be made of. */
export interface PreparedServer {
  readonly desiredServer: DesiredServer
  readonly model: LocalModel
  readonly binary: Binary
  readonly env: Readonly<Record<string, string>>
  /** Absent where there is no binary to ask. */
  readonly dialect: LlamaServerDialect | undefined
}

/** Turns a desired server into a command line and into the memory that it will hold, from the same arguments. */
export class ServerLaunches {
  readonly chooseRuntime: ReturnType<typeof chooseRuntime>
  readonly #options: ServerLaunchesOptions
  readonly #dialects = new LlamaServerDialects()

  constructor(options: ServerLaunchesOptions) {
    this.#options = options
    this.chooseRuntime = chooseRuntime(options.settings)
  }

  /** Asks the binary in advance, so that the first start does not wait for its answer. */
  async learnDialect(): Promise<void> {
    const binary = await this.findBinary()
    if (binary.kind === 'found') await this.#dialects.of(binary.path, launchEnvironment())
  }

  findBinary(): Promise<Binary> {
    return this.#options.findBinary()
  }

  async prepare(desiredServer: DesiredServer, model: LocalModel, binary: Binary): Promise<PreparedServer> {
    const env = launchEnvironment(environmentOf(desiredServer.spec, this.#options.settings.policy.allowedEnv))
    const dialect = binary.kind === 'found' ? await this.#dialects.of(binary.path, launchEnvironment()) : undefined
    return { desiredServer, model, binary, env, dialect }
  }

  /** Why this machine does not start it as its spec asks, one sentence or two. */
  startProblem({ desiredServer, dialect }: PreparedServer, executable: string): Promise<string | undefined> {
    const { settings, allowsFile } = this.#options
    return startProblem(desiredServer.spec.extraArgs, {
      policy: settings.policy,
      executable,
      known: dialect?.flags,
      allowsFile: (path) => allowsFile(path, desiredServer.service.metadata.namespace),
    })
  }

  /** Tells one need from another: what is worked out for one server holds as long as this is the same. */
  async needKey(prepared: PreparedServer): Promise<string> {
    const { desiredServer, model, env } = prepared
    const sides = await sideFileStamp(this.#argv(prepared, {}), env)
    return `${desiredServer.digest} ${model.path} ${model.revision} ${sides}`.trimEnd()
  }

  /** What the server will hold. Never rejects. */
  sizeUp(prepared: PreparedServer, of: string): Promise<Need> {
    const { desiredServer, model, env } = prepared
    const { models, metal } = this.#options
    return sizeUp({
      ...{ of, models, model, env, metal },
      status: desiredServer.modelStatus,
      argv: (change) => this.#argv(prepared, change),
    })
  }

  #argv({ desiredServer, model, dialect }: PreparedServer, change: ServerChange): string[] {
    const where = { modelPath: model.path, mmproj: model.mmproj, ...(dialect && { dialect }) }
    return commandLine(changed(desiredServer.spec, change), desiredServer.model, this.#options.settings, where)(0)
  }

  launch({ desiredServer, model, env, dialect }: PreparedServer, executable: string, need: Need): ServerLaunch {
    const { settings } = this.#options
    const { estimate } = need
    const argv = commandLine(desiredServer.spec, desiredServer.model, settings, {
      modelPath: model.path,
      mmproj: model.mmproj,
      host: settings.host(),
      alias: desiredServer.spec.modelRef || undefined,
      ...(dialect && { dialect }),
      ...(dialect?.boundsPromptCache === true && { cacheRamMiB: estimate?.cacheRamThatHolds }),
    })
    return {
      uid: desiredServer.service.metadata.uid,
      digest: desiredServer.digest,
      executable,
      argv,
      localCommand: (port) => withLocalFiles(argv(port)),
      env,
      port: settings.port,
      ...settings.rules(),
      sleepsWhenIdle: sleepsWhenIdle(desiredServer.spec),
      files: [
        model.path,
        ...(model.mmproj === undefined ? [] : [model.mmproj]),
        ...filesIn(desiredServer.spec.extraArgs),
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
