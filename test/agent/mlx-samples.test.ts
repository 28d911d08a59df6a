import { execa } from 'execa'
import { mkdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, inject, test } from 'vitest'
import { Ports } from '../../src/agent-core/servers/ports.ts'
import { AgentProcess } from '../support/agent-process.ts'
import { AgentWorld, untilGone } from '../support/agent-world.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { writeMlxModel } from '../support/mlx-writer.ts'
import { sampleMlxServerPath, sampleTensorfoldPath, sampleVllmSwiftPath } from '../support/sample-servers/sample.ts'
import { skipWhen } from '../support/skip.ts'

const controlPlane = inject('controlPlane')
skipWhen('missing' in controlPlane ? controlPlane.missing : undefined)

test('mlx-server, vllm-swift and tensorfold serve who names them, or has no other one, each at its port and behind what it needs, and end with all of their processes', async () => {
  if ('missing' in controlPlane) return
  await using world = await AgentWorld.open(controlPlane.connection)
  const mlx = path.join(world.folder, 'lent', 'mlx')
  await mkdir(path.join(world.folder, 'lent'))
  await writeMlxModel(mlx, { contextTokens: 4096 })
  const clientPort = await freePort()
  const file = await writeKubeconfig(path.join(world.folder, 'kubeconfig'), controlPlane.connection)
  await using agent = await AgentProcess.start({
    ...{ folder: path.join(world.folder, 'agent'), kubeconfig: await readFile(file, 'utf8') },
    args: [
      ...['--namespace', world.namespace, '--allowed-model-roots', path.join(world.folder, 'lent')],
      // Preferred, and not here: who names no runtime gets the one that is.
      ...['--mlx-lm-bin', path.join(world.folder, 'none')],
      ...['--mlx-server-bin', sampleMlxServerPath],
      // The address of this machine, since vllm-swift is behind the gateway, which listens there.
      ...['--vllm-swift-bin', sampleVllmSwiftPath, '--client-port', String(clientPort), '--host-ip', ''],
      ...['--tensorfold-bin', sampleTensorfoldPath],
    ],
  })
  const serve = async (name: string, runtime?: string) => {
    await world.applyModel(name, { source: mlx, format: 'mlx' })
    const metadata = { name, ...(runtime !== undefined && { annotations: { 'metalbar.dev/runtime': runtime } }) }
    const what = { apiVersion: 'inference.llmkube.dev/v1alpha1', kind: 'InferenceService' }
    await world.admin.apply({ ...what, metadata, spec: { modelRef: name } })
    return agent.service(name, 'ready')
  }
  const pears = await serve('pears', 'mlx-server')
  const plums = await serve('plums')
  const quinces = await serve('quinces', 'vllm-swift')
  const figs = await serve('figs', 'tensorfold')
  expect(pears.port).not.toBe(plums.port)
  expect([pears.runtime, plums.runtime, plums.runtimeFrom]).toEqual([
    ...['mlx-server', 'mlx-server', 'the format mlx of its Model'],
  ])

  const asked = async (model: string) => {
    const answer = await fetch(`http://127.0.0.1:${clientPort}/v1/chat/completions`, {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' } },
      body: JSON.stringify({ model, max_tokens: 2, messages: [{ role: 'user', content: 'hello' }] }),
    })
    return ((await answer.json()) as { object?: string }).object
  }
  const inNamespace = (name: string) => `${world.namespace}/${name}`
  // vLLM answers to the name that it was given alone, whatever the client proxy was asked for.
  expect([
    await asked('pears'),
    await asked('plums'),
    await asked(inNamespace('quinces')),
    await asked('figs'),
  ]).toEqual(Array.from({ length: 4 }, () => 'chat.completion'))
  const argsOf = async ({ pid = 0 }: { readonly pid?: number | undefined }) =>
    (await execa('ps', ['-ww', '-o', 'args=', '-p', String(pid)])).stdout
  expect([await argsOf(pears), await argsOf(quinces), await argsOf(figs)]).toEqual([
    expect.stringMatching(/ --model (\.\.\/)+lent\/mlx --host 0\.0\.0\.0 --port \d+$/),
    expect.stringMatching(
      / serve (\.\.\/)+lent\/mlx --port \d+ --host 127\.0\.0\.1 --max-model-len 2048 --max-num-seqs 4 --served-model-name quinces$/,
    ),
    expect.stringMatching(
      / serve (\.\.\/)+lent\/mlx --host 127\.0\.0\.1 --port \d+ --name figs --no-update-check --context 2048 --parallel 4 --snapshot-dir none$/,
    ),
  ])

  for (const [name, { pid = 0, port = 0 }] of Object.entries({ pears, quinces, figs })) {
    await world.deleteService(name)
    await untilGone(pid)
    const areFree = () => Promise.all([port, port + 1_000].map((one) => new Ports().isFree(one)))
    await eventually(async () => (await areFree()).every(Boolean), { what: `both ports of ${name} being free` })
  }
  expect((await agent.service('plums', 'ready')).pid).toBe(plums.pid)
})
