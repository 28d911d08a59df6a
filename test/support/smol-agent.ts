import path from 'node:path'
import { AgentProcess } from './agent-process.ts'
import { freePort } from './free-port.ts'
import { KubeSim } from './kube-sim/kube-sim.ts'
import { useSmallEngine, useSmallModel } from './skip.ts'
import { temporaryFolder } from './temporary-folder.ts'

/** @returns what starts an agent with a client proxy at `port` that serves a real small model as default/smol, on a simulated cluster. */
export function useSmolAgent() {
  const engine = useSmallEngine()
  const source = useSmallModel()
  return async (extraArgs: readonly string[] = []) => {
    await using stack = new AsyncDisposableStack()
    const sim = stack.use(await KubeSim.start())
    const { dir: folder } = stack.use(await temporaryFolder())
    const port = await freePort()
    const args = ['--llama-server', engine, '--allowed-model-roots', path.dirname(source), '--client-port', `${port}`]
    const at = { folder: path.join(folder, 'agent'), kubeconfig: sim.kubeconfig() }
    const agent = stack.use(await AgentProcess.start({ ...at, args }))
    const [apiVersion, metadata] = ['inference.llmkube.dev/v1alpha1', { name: 'smol' }]
    const spec = { source, format: 'gguf', hardware: { accelerator: 'metal' } }
    sim.create({ apiVersion, kind: 'Model', metadata, spec })
    sim.create({
      apiVersion,
      kind: 'InferenceService',
      metadata,
      spec: { modelRef: 'smol', extraArgs: ['--threads', '1', ...extraArgs] },
    })
    await agent.service('smol', 'ready')
    const owned = stack.move()
    return { agent, folder, port, [Symbol.asyncDispose]: () => owned.disposeAsync() }
  }
}
