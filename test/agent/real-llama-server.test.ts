import { readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { livenessTimings } from '../../src/agent-core/servers/liveness.ts'
import { AgentWorld, commandLineOf, untilGone } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { useLlamaServer } from '../support/skip.ts'
import { streamedAnswer } from '../support/streamed-answer.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const llamaServer = useLlamaServer()
const mebibyte = 1024 ** 2
let sim: KubeSim
/** Large enough to answer at a hundred tokens a second or so. */
let slow: Buffer
beforeAll(async () => {
  sim = await KubeSim.start()
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'slow.gguf')
  await writeLlamaGguf(file, { vocabulary: 32_000, embedding: 256, blocks: 4, context: 4096 })
  slow = await readFile(file)
})
afterAll(() => sim[Symbol.asyncDispose]())

/** A world with the slow model, which is a file of its folder too. */
async function openWorld(): Promise<AgentWorld> {
  const world = await AgentWorld.open(sim.connection())
  await writeFile(join(world.folder, 'slow.gguf'), slow)
  await world.applyModel('llama', { source: world.files.serve('/slow.gguf', slow).url })
  return world
}

test('a completion in flight survives the deletion of its service and finishes; the wait for it is shown', async () => {
  await using world = await openWorld()
  const agent = await world.startAgent({ llamaServer })
  await world.applyService('llama')
  const { pid, port } = await agent.untilReady('llama')
  const answer = streamedAnswer(port, 150)
  await eventually(() => answer.text.length > 0)
  await world.deleteService('llama')
  const { message } = await agent.until('llama', (view) => /request finishing/.test(view.message))
  expect(message).toMatch(/1 request finishing; the server stops in at most \d+ s\.$/)
  expect((await world.published('llama'))?.ready).not.toBe(true)
  expect(await answer.end).toBe('whole')
  await untilGone(pid)
})

test('its cache of prompts is kept to what is counted for it, unless the spec says how much', async () => {
  await using world = await openWorld()
  const agent = await world.startAgent({ llamaServer })
  await world.applyService('llama')
  const { pid, memory } = await agent.untilReady('llama')
  expect(await commandLineOf(pid)).toMatch(/ --cache-ram 512$/)
  expect(memory?.items?.promptCache).toBe(512 * 1024 * 1024)
  await world.applyService('llama', { spec: { extraArgs: ['--cache-ram', '64'] } })
  const after = await agent.untilReadyAgain('llama', pid)
  expect((await commandLineOf(after.pid))?.match(/--cache-ram \d+/g)).toEqual(['--cache-ram 64'])
})

test('whoever asks is told the name of the Model, and no folder of this machine', async () => {
  await using world = await openWorld()
  const agent = await world.startAgent({ llamaServer })
  await world.applyService('llama', { spec: { extraArgs: ['-md', join(world.folder, 'slow.gguf')] } })
  const { port } = await agent.untilReady('llama')
  const url = `http://127.0.0.1:${port}`
  const completion = { method: 'POST', body: JSON.stringify({ prompt: 'hello', n_predict: 1 }) }
  const answers = await Promise.all([
    ...['/v1/models', '/props', '/api/tags', '/lora-adapters', '/metrics', '/slots'].map((path) => fetch(url + path)),
    ...['/completion', '/v1/completions'].map((path) => fetch(url + path, completion)),
  ])
  const texts = await Promise.all(answers.map((answer) => answer.text()))
  expect(texts.filter((text) => text.includes(world.folder))).toEqual([])
  expect(JSON.parse(texts[0] ?? '')).toMatchObject({ data: [{ id: 'llama' }] })
  expect(JSON.parse(texts[1] ?? '')).toMatchObject({
    model_alias: 'llama',
    model_path: expect.stringMatching(/^model\/[^/]+\.gguf$/) as unknown,
  })
})

test('a server with every slot taken, requests waiting and a single thread for them all is not called dead', async () => {
  await using world = await openWorld()
  const liveness = { ...livenessTimings, everyMs: 100, answerWithinMs: 200, followUpMs: 50, misses: 4, hungMisses: 8 }
  const agent = await world.startAgent({ llamaServer, liveness })
  await world.applyService('llama', { spec: { parallelSlots: 2, extraArgs: ['--threads-http', '1'] } })
  const { pid, port } = await agent.untilReady('llama')
  const ends = Array.from({ length: 4 }, () => streamedAnswer(port, 120).end)
  expect(new Set(await Promise.all(ends))).toEqual(new Set(['whole']))
  expect(agent.log.warnings.filter(({ message }) => message === 'server does not answer')).toEqual([])
  expect(agent.view('llama')).toMatchObject({ state: 'ready', pid, restarts: 0 })
})

test('a suspended server is withdrawn and started again', async () => {
  await using world = await openWorld()
  const liveness = { ...livenessTimings, everyMs: 100, answerWithinMs: 300, followUpMs: 50 }
  const agent = await world.startAgent({ llamaServer, liveness })
  await world.applyService('llama')
  const { pid } = await agent.untilReady('llama')
  process.kill(pid, 'SIGSTOP')
  await agent.until('llama', 'unready')
  await world.untilNotReady('llama')
  await agent.untilReadyAgain('llama', pid)
  expect(await commandLineOf(pid)).toBeUndefined()
})

test('a draft model is counted with its weights, cache and buffers: where that is too much, nothing is started', async () => {
  await using world = await openWorld()
  const draft = join(world.folder, 'draft.gguf')
  await writeLlamaGguf(draft, { weights: 'hole', vocabulary: 32_000, embedding: 2048, blocks: 24, context: 4096 })
  const adapter = join(world.folder, 'adapter.gguf')
  await writeLlamaGguf(adapter)
  await truncate(adapter, 200 * mebibyte)
  const agent = await world.startAgent({ llamaServer, settings: { memoryBudgetBytes: 900 * mebibyte } })
  const extraArgs = ['--model-draft', draft, '--lora', adapter]
  await world.applyService('llama', { spec: { extraArgs } })
  const { message, memory } = await agent.until('llama', ({ reason }) => reason === 'InsufficientMemory')
  expect(message).toMatch(/^Needs [\d.]+ GB, more than the whole budget of 944 MB/)
  expect(memory?.items?.adapters).toBe(200 * mebibyte)
  expect(memory?.items?.draft).toBeGreaterThan(1.3 * 1024 * mebibyte)
  expect(memory?.guess).toBeUndefined()
  expect(agent.starts).toBe(0)
  await world.applyService('llama', { spec: { extraArgs: [] } })
  await agent.untilReady('llama')
})
