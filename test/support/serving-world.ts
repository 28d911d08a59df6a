import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { startControllerStandIn } from './controller-stand-in/controller-stand-in.ts'
import { startFileServer } from './file-server.ts'
import { KubeSim } from './kube-sim/kube-sim.ts'
import { sampleScriptArgs, sampleServerPath, type SampleScript } from './sample-servers/sample.ts'

const apiVersion = 'inference.llmkube.dev/v1alpha1'
const gguf = Buffer.concat([Buffer.from('GGUF'), randomBytes(1_000)])

const sliceShape = z.object({
  endpoints: z.array(z.object({ addresses: z.array(z.string()), conditions: z.object({ ready: z.boolean() }) })),
})
const specShape = z.object({ spec: z.object({ suspend: z.boolean().default(false) }) })

export interface ServingWorld extends AsyncDisposable {
  readonly sim: KubeSim
  /** What an agent is told to serve it. */
  readonly preferences: Readonly<Record<string, unknown>>
  /** Wants a model to be served, by a sample server that behaves as the script says; `source`: another file than all others get. */
  apply(name: string, script?: SampleScript, source?: string): void
  /** What the cluster says. */
  isSuspended(name: string): boolean
  /** The address that pods are sent to; undefined = none. */
  published(name: string): string | undefined
}

/** A simulated cluster with a stand-in for LLMKube's controller, and a model to download. */
export async function servingWorld(): Promise<ServingWorld> {
  await using stack = new AsyncDisposableStack()
  const sim = stack.use(await KubeSim.start())
  stack.use(await startControllerStandIn({ connection: sim.connection() }))
  const files = stack.use(await startFileServer())
  const { url } = files.serve('/model.gguf', gguf)
  const owned = stack.move()
  return {
    sim,
    preferences: {
      llamaServer: sampleServerPath,
      allowUnsafeExtraArgs: true,
      hostIp: '192.0.2.10',
      allowedDownloadHosts: ['127.0.0.1'],
    },
    apply(name, script = {}, source = url) {
      const metadata = { name }
      const spec = { source, format: 'gguf', hardware: { accelerator: 'metal' } }
      sim.create({ apiVersion, kind: 'Model', metadata, spec })
      const extraArgs = sampleScriptArgs(script)
      sim.create({ apiVersion, kind: 'InferenceService', metadata, spec: { modelRef: name, extraArgs } })
    },
    isSuspended: (name) => specShape.parse(sim.get({ resource: 'inferenceservices', name })).spec.suspend,
    published(name) {
      const found = sliceShape.safeParse(sim.get({ resource: 'endpointslices', name }))
      const ready = found.data?.endpoints.find(({ conditions }) => conditions.ready)
      return ready?.addresses[0]
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
