import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { AgentProcess, type AgentProcessOptions } from './agent-process.ts'
import { startControllerStandIn } from './controller-stand-in/controller-stand-in.ts'
import { startFileServer } from './file-server.ts'
import { writeLlamaGguf } from './gguf-writer.ts'
import { KubeSim } from './kube-sim/kube-sim.ts'
import { sampleServerPath } from './sample-servers/sample.ts'
import { temporaryFolder } from './temporary-folder.ts'

/** An installed `metal-agent` on the simulated cluster, which has fetched one model and serves it. */
export async function servedBy(options: AgentProcessOptions) {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await temporaryFolder())
  const sim = stack.use(await KubeSim.start())
  stack.use(await startControllerStandIn({ connection: sim.connection() }))
  const files = stack.use(await startFileServer())
  const model = path.join(folder.dir, 'tiny.gguf')
  await writeLlamaGguf(model)
  const { url } = files.serve('/tiny.gguf', await readFile(model))
  const apiVersion = 'inference.llmkube.dev/v1alpha1'
  const metadata = { name: 'tiny' }
  const spec = { source: url, format: 'gguf', hardware: { accelerator: 'metal' } }
  sim.create({ apiVersion, kind: 'Model', metadata, spec })
  // Its patterns are matched in a worker.
  const tensorOverrides = ['ffn_.*=CPU']
  sim.create({ apiVersion, kind: 'InferenceService', metadata, spec: { modelRef: 'tiny', tensorOverrides } })
  const args = ['--llama-server', sampleServerPath, ...(options.args ?? [])]
  const agent = stack.use(await AgentProcess.start({ ...options, kubeconfig: sim.kubeconfig(), args }))
  const { port = 0 } = await agent.service('tiny', 'ready')
  const owned = stack.move()
  const complete = async (): Promise<unknown> => {
    const answer = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }] }),
    })
    return answer.json()
  }
  return { agent, sim, complete, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}
