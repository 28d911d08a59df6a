import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { startControllerStandIn } from '../support/controller-stand-in/controller-stand-in.ts'
import { maxHeld, watchedAgent } from '../support/event-loop/health-watch.ts'
import { eventually } from '../support/eventually.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { boundedServer, growingTemplate } from '../support/memory/growing-template.ts'
import { useLlamaServer } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const llamaServer = useLlamaServer()
const apiVersion = 'inference.llmkube.dev/v1alpha1'

test('a model whose own chat template grows is ended before any other, which serves on, and never holds the event loop', async () => {
  await using folder = await temporaryFolder()
  await using sim = await KubeSim.start()
  await using _controller = await startControllerStandIn({ connection: sim.connection() })
  const store = path.join(folder.dir, 'models')
  await mkdir(store, { mode: 0o700 })
  const templates = {
    usual: '{% for message in messages %}{{ message.content }}{% endfor %}',
    grows: growingTemplate(1_500),
  }
  await using watched = await watchedAgent({
    folder: folder.dir,
    kubeconfig: sim.kubeconfig(),
    args: [
      ...['--llama-server', await boundedServer(folder.dir, llamaServer)],
      ...['--memory-budget', '400Mi', '--memory-margin', '64Mi'],
    ],
  })
  const { agent, health } = watched
  const serve = async (name: keyof typeof templates, spec: object): Promise<void> => {
    const source = path.join(store, `${name}.gguf`)
    await writeLlamaGguf(source, { metadata: { 'tokenizer.chat_template': templates[name] } })
    const model = { source, format: 'gguf', hardware: { accelerator: 'metal' } }
    sim.create({ apiVersion, kind: 'Model', metadata: { name }, spec: model })
    const small = { extraArgs: ['--cache-ram', '0', '--parallel', '1'] }
    sim.create({
      ...{ apiVersion, kind: 'InferenceService', metadata: { name } },
      spec: { modelRef: name, ...small, ...spec },
    })
  }
  await serve('usual', { priority: 'batch' })
  const { pid } = await agent.service('usual', 'ready')
  await serve('grows', { priority: 'critical', evictionProtection: true })
  const condition = await eventually(
    () => {
      const { status } = withConditions.parse(sim.get({ resource: 'inferenceservices', name: 'grows' }))
      return status.conditions.find(({ reason }) => reason === 'MemoryExceeded')
    },
    { timeoutMs: 90_000, what: 'the condition MemoryExceeded' },
  )
  expect(condition.message).toMatch(/took [\d.]+ [MG]B more than the [\d.]+ MB that it was admitted with/)
  expect(agent.log.filter(({ msg }) => msg === 'server ended for its memory')).not.toEqual([])
  expect(await agent.service('usual', 'ready')).toMatchObject({ pid, restarts: 0 })
  expect(await health.longest()).toBeLessThan(maxHeld)
})

const withConditions = z.object({
  status: z
    .object({ conditions: z.array(z.object({ reason: z.string(), message: z.string() })).default([]) })
    .prefault({}),
})
