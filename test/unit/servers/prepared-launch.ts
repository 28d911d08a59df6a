import { launchRules } from '../../../src/agent-core/api/settings.ts'
import { parseInferenceService, parseModel } from '../../../src/agent-core/kube/resources.ts'
import { ServerLaunches } from '../../../src/agent-core/reconcile/server-launches.ts'
import { Dialects } from '../../../src/agent-core/runtimes/dialect.ts'
import { runtimes } from '../../../src/agent-core/runtimes/runtimes.ts'
import type { Launch } from '../../../src/agent-core/servers/launch.ts'
import type { ServerRuntime } from '../../../src/agent-core/servers/probe.ts'
import { agentSettings } from '../../../src/agent-core/settings/settings.ts'

/** What sample servers are told by. */
export const sampleVariable = 'SAMPLE_SCRIPT'

/** Each program says what it can do once for all tests. */
export const dialects = new Dialects()

const settings = agentSettings.parse({ modelStore: '/models', stateDir: '/state' })

interface Asked {
  readonly executable: string
  readonly model: string
  readonly revision?: string
  readonly stallMs?: number | undefined
  readonly daemonPort?: number
  /** Fields of the InferenceService. */
  readonly spec?: Readonly<Record<string, unknown>>
}

/** As an agent prepares a service that asks for the runtime. */
export async function prepareLaunch(
  runtime: ServerRuntime,
  { executable, model, revision = 'r', stallMs = 60_000, daemonPort = 0, spec = {} }: Asked,
) {
  const launches = new ServerLaunches({
    settings: {
      ...{ defaultRuntime: undefined, performanceCores: undefined },
      policy: { allowsUnsafe: false, allowedEnv: [sampleVariable], modelRoots: [] },
      ...{ port: () => ({ kind: 'ephemeral' as const }), host: () => '127.0.0.1' },
      ...{ daemonPort: () => daemonPort, owner: 'test' },
      rules: (chosen) => ({ ...launchRules(settings, chosen), startupStallMs: stallMs }),
    },
    models: { header: () => Promise.reject(new Error('not read')) },
    ...{ findBinary: () => Promise.resolve({ kind: 'found', path: executable }), metal: false },
    allowsFile: () => Promise.resolve(true),
    dialects,
  })
  const metadata = { namespace: 'a', name: 'b', uid: 'uid-1', resourceVersion: '1' }
  const service = parseInferenceService({
    metadata: { ...metadata, annotations: { 'metalbar.dev/runtime': runtime } },
    spec: { modelRef: 'apples', ...spec },
  })
  const wanted = parseModel({
    metadata,
    spec: { source: model, format: runtimes[runtime].sizing === 'gguf' ? 'gguf' : 'mlx' },
  })
  const choice = launches.chooseRuntime(service, service.spec.value, wanted.spec.value)
  if (!choice.ok) throw new Error(choice.message)
  const desired = {
    ...{ service, spec: service.spec.value, model: wanted.spec.value, modelStatus: wanted.status },
    ...{ runtime: choice.runtime, digest: choice.digest },
  }
  const file = { path: model, files: [], sizeBytes: 500_000, revision }
  const prepared = await launches.prepare(desired, file, { kind: 'found', path: executable })
  const problem = await launches.startProblem(prepared, executable)
  const launch = async (): Promise<Launch> => launches.launch(prepared, executable, await launches.sizeUp(prepared, ''))
  return { problem, launch }
}
