import { symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { expect, test } from 'vitest'
import { type ClientName, clientTexts } from '../../src/renderer/words/clients.ts'
import { AgentProcess } from '../support/agent-process.ts'
import { freePort } from '../support/free-port.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { useClients, useSmallEngine, useSmallModel } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const engine = useSmallEngine()
const model = useSmallModel()
const python = useClients()
const nodeModules = path.resolve(import.meta.dirname, '../../node_modules')

test('what is copied for curl, OpenAI, Anthropic and LiteLLM is answered by a real model as it stands', async () => {
  await using stack = new AsyncDisposableStack()
  const sim = stack.use(await KubeSim.start())
  const { dir } = stack.use(await temporaryFolder())
  const port = await freePort()
  const args = ['--llama-server', engine, '--allowed-model-roots', path.dirname(model), '--client-port', String(port)]
  const agent = stack.use(
    await AgentProcess.start({ folder: path.join(dir, 'agent'), kubeconfig: sim.kubeconfig(), args }),
  )
  const apiVersion = 'inference.llmkube.dev/v1alpha1'
  const spec = { source: model, format: 'gguf', hardware: { accelerator: 'metal' } }
  sim.create({ apiVersion, kind: 'Model', metadata: { name: 'smol' }, spec })
  sim.create({ apiVersion, kind: 'InferenceService', metadata: { name: 'smol' }, spec: { modelRef: 'smol' } })
  await agent.service('smol', 'ready')
  await symlink(nodeModules, path.join(dir, 'node_modules'))
  const runs: Partial<Record<ClientName, (file: string) => [program: string, ...args: string[]]>> = {
    curl: (file) => ['sh', file],
    'OpenAI, JavaScript': (file) => [process.execPath, file],
    'OpenAI, Python': (file) => [python, file],
    'Anthropic, Python': (file) => [python, file],
    LiteLLM: (file) => [python, file],
  }
  const of = { url: `http://127.0.0.1:${port}/default/smol`, model: 'smol' }
  for (const [client, command] of Object.entries(runs)) {
    const file = path.join(dir, client === 'OpenAI, JavaScript' ? 'ask.mjs' : 'ask')
    await writeFile(file, clientTexts[client as ClientName](of))
    const [program, ...rest] = command(file)
    const { stdout } = await execa(program, rest, { env: { HOME: dir }, timeout: 100_000 })
    expect(stdout, client).toMatch(/[a-z]{2}/)
  }
})
