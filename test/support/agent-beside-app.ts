import { AgentProcess } from './agent-process.ts'
import { sampleServerPath } from './sample-servers/sample.ts'
import type { ServingWorld } from './serving-world.ts'
import { stateDirIn } from './shell-app.ts'
import { temporaryFolder } from './temporary-folder.ts'

/** A headless agent on the state folder that an app started in `folder` would use. */
export async function agentBesideApp({ sim }: ServingWorld) {
  await using parts = new AsyncDisposableStack()
  const folder = parts.use(await temporaryFolder()).dir
  const agent = parts.use(
    await AgentProcess.start({
      folder,
      kubeconfig: sim.kubeconfig(),
      args: ['--state-dir', stateDirIn(folder), '--llama-server', sampleServerPath, '--allow-unsafe-extra-args'],
    }),
  )
  await agent.logged('cluster')
  const owned = parts.move()
  return { agent, folder, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}
