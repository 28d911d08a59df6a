import { createHash } from 'node:crypto'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { AgentWorld, commandLineOf } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { writeLlamaGguf, type LlamaOptions } from '../support/gguf-writer.ts'
import { skipWhen, useLlamaServer } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const controlPlane = inject('controlPlane')
const llamaServer = useLlamaServer()
skipWhen('missing' in controlPlane ? controlPlane.missing : undefined)

const mebibyte = 1024 ** 2
let model: Buffer
let draft: Buffer
let otherDraft: Buffer
beforeAll(async () => {
  await using folder = await temporaryFolder()
  const written = async (options: LlamaOptions) => {
    const file = join(folder.dir, 'm.gguf')
    await writeLlamaGguf(file, options)
    return readFile(file)
  }
  model = await written({ seed: 1 })
  draft = await written({ seed: 2, blocks: 1 })
  otherDraft = await written({ seed: 3, blocks: 1 })
})

/** On the real API server, with the service `chat` of the Model `chat`. */
async function openWorld(): Promise<AgentWorld> {
  if ('missing' in controlPlane) throw new Error(controlPlane.missing)
  const world = await AgentWorld.open(controlPlane.connection)
  await world.applyModel('chat', { source: world.files.serve('/chat.gguf', model).url })
  return world
}

const sha256 = (content: Buffer): string => createHash('sha256').update(content).digest('hex')

const drafting = { type: 'draft', draftModelRef: 'small', nDraftMax: 4 }
const serveDrafting = (world: AgentWorld, more: object = {}, spec: object = {}) =>
  world.applyService('chat', { spec: { ...spec, speculativeDecoding: { ...drafting, ...more } } })

const answer = z.object({ timings: z.object({ draft_n: z.number().default(0) }) })

/** How many tokens the server drafted for a short answer. */
async function draftedBy(port: number): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}/completion`, {
    method: 'POST',
    body: JSON.stringify({ prompt: 'hello', n_predict: 12, ignore_eos: true }),
  })
  return answer.parse(await response.json()).timings.draft_n
}

test('a draft Model is waited for, fetched, verified and drafted with; another one takes its place, and one that is gone takes nothing', async () => {
  await using world = await openWorld()
  const agent = await world.startAgent({ llamaServer })
  await serveDrafting(world)
  const waiting = await agent.until('chat', ({ reason }) => reason === 'ModelMissing')
  expect(waiting.message).toBe(
    `There is no Model "small" in namespace ${world.namespace}, the draft model that spec.speculativeDecoding.draftModelRef names; create it, or correct spec.speculativeDecoding.draftModelRef.`,
  )
  expect(agent.starts).toBe(0)

  const served = world.files.serve('/small.gguf', draft)
  await world.applyModel('small', { source: served.url, sha256: sha256(draft) })
  const first = await agent.untilReady('chat')
  expect(await commandLineOf(first.pid)).toMatch(
    / --spec-type draft-simple --model-draft files-2\/small\.gguf --spec-draft-n-max 4 /,
  )
  expect(await draftedBy(first.port)).toBeGreaterThan(0)
  expect(first).toMatchObject({ model: 'chat', draft: 'small' })
  expect(first.message).toMatch(/^Serving at \S+$/)
  expect(first.memory?.items?.draft).toBeGreaterThan(0)
  expect(await world.eventReasons('chat')).toContain('Fetched')
  const [small = ''] = await readdir(join(agent.stateDir, 'models/@/small'))
  expect((await stat(join(agent.stateDir, 'models/@/small', small, 'small.gguf'))).size).toBe(draft.length)

  const removed = await agent.command({ name: 'removeModel', model: 'small' })
  const pruned = await agent.command({ name: 'pruneModels', dryRun: true })
  expect([removed.message, pruned.message]).toEqual([
    `The model small is used by ${world.namespace}/chat: delete or stop that service first.`,
    'There is nothing to prune: every model in the store is used by a service.',
  ])

  await world.applyModel('small', { source: world.files.serve('/other.gguf', otherDraft).url })
  const second = await agent.untilReadyAgain('chat', first.pid)
  expect(await commandLineOf(second.pid)).toContain('/other.gguf')
  expect(await draftedBy(second.port)).toBeGreaterThan(0)

  await world.deleteModel('small')
  const kept = await agent.until('chat', ({ message }) => message.includes('no Model "small"'))
  expect(kept).toMatchObject({ state: 'ready', pid: second.pid })
  expect(kept.message).toMatch(/The server keeps the model it loaded, but could not be started again\./)

  await world.applyService('chat', { spec: {} })
  const without = await agent.untilReadyAgain('chat', second.pid)
  expect(await commandLineOf(without.pid)).not.toContain('--spec')
  expect(without.draft).toBeUndefined()
})

test('a draft that cannot be had is named, nothing is started, and another is taken at once', async () => {
  await using world = await openWorld()
  const agent = await world.startAgent({ llamaServer, settings: { memoryBudgetBytes: 900 * mebibyte } })
  const page = Buffer.from('<!doctype html><title>Log in</title>')
  const large = join(world.folder, 'large.gguf')
  await writeLlamaGguf(large, { weights: 'hole', vocabulary: 32_000, embedding: 2048, blocks: 24, context: 4096 })
  const url = (path: string, content: Buffer) => world.files.serve(path, content).url
  const stories: readonly (readonly [object, string, RegExp])[] = [
    [{ source: `${world.files.origin}/none.gguf` }, 'FetchFailed', /^The draft model small is not here\. .*404/],
    [{ source: url('/page.gguf', page) }, 'FetchFailed', /^The draft model small is not here\. .*(page|GGUF)/],
    [
      { source: url('/wrong.gguf', draft), sha256: 'a'.repeat(64) },
      'FetchFailed',
      /^The draft model small is not here\. .*(checksum|SHA-256)/,
    ],
    [{ source: '/etc/hostname' }, 'FetchFailed', /^The draft model small is not here\. .*--allowed-model-roots/],
    [
      { source: 'https://10.0.0.1/d.gguf' },
      'FetchFailed',
      /^The draft model small is not here\. .*--allowed-download-hosts/,
    ],
    [{ source: url('/m.gguf', draft), format: 'mlx' }, 'Refused', /is of format "mlx", and llama-server drafts/],
    [{ source: large }, 'InsufficientMemory', /more than the whole budget/],
  ]
  await serveDrafting(world)
  for (const [small, reason, words] of stories) {
    await world.applyModel('small', small)
    await agent.until('chat', (view) => view.reason === reason && words.test(view.message))
  }
  expect(agent.starts).toBe(0)
  await serveDrafting(world, { draftModel: 'chat.gguf' })
  await agent.until('chat', ({ reason, message }) => reason === 'Refused' && message.includes('weights twice'))
  await serveDrafting(world, { draftModelRef: '../chat' })
  await agent.until('chat', ({ reason, message }) => reason === 'ModelMissing' && message.includes('"../chat"'))
  expect(agent.starts).toBe(0)

  await world.applyModel('small', { source: url('/small.gguf', draft) })
  await serveDrafting(world)
  const { port } = await agent.untilReady('chat')
  expect(await draftedBy(port)).toBeGreaterThan(0)
})

test('a draft is downloaded once for all services, with its progress, and no longer than one wants it', async () => {
  await using world = await openWorld()
  const agent = await world.startAgent({ llamaServer })
  const served = world.files.serve('/small.gguf', draft, { paced: true })
  await world.applyModel('small', { source: served.url })
  await serveDrafting(world)
  await world.applyService('second', { modelRef: 'chat', spec: { speculativeDecoding: drafting } })
  served.allow(10_000)
  for (const name of ['chat', 'second']) {
    const { message } = await agent.until(name, ({ message: text }) => text.includes('draft model'))
    expect(message).toMatch(/^Fetching the model\. Its draft model small is fetched now\./)
  }
  await world.deleteService('chat')
  await agent.untilNotShown('chat')
  expect(served.openResponses).toBe(1)
  await world.deleteService('second')
  await eventually(() => served.openResponses === 0)
  expect(served.requests.filter(({ method }) => method === 'GET')).toHaveLength(1)
})

test('a draft that its source has in another version is fetched beside, and a server with it takes over, also one that was adopted', async () => {
  await using world = await openWorld()
  const agent = await world.startAgent({ llamaServer, refreshEveryMs: 300 })
  const { url: source } = world.files.serve('/small.gguf', draft, { etag: () => '"first"' })
  await world.applyModel('small', { source, refreshPolicy: 'OnChange' })
  await serveDrafting(world)
  const { pid, port } = await agent.untilReady('chat')
  expect(await draftedBy(port)).toBeGreaterThan(0)
  world.files.serve('/small.gguf', otherDraft, { etag: () => '"second"' })
  const after = await agent.untilReadyAgain('chat', pid)
  expect(await draftedBy(after.port)).toBeGreaterThan(0)
  expect(agent.starts).toBe(2)

  await agent.leave()
  const next = await world.startAgent({ llamaServer, refreshEveryMs: 300 })
  expect((await next.untilReady('chat')).pid).toBe(after.pid)
  world.files.serve('/small.gguf', draft, { etag: () => '"third"' })
  await next.untilReadyAgain('chat', after.pid)
  expect(next.starts).toBe(1)
})

test('a llama-server whose --help says nothing of the flags is started with them', async () => {
  await using world = await openWorld()
  const old = join(world.folder, 'llama-server')
  const script = `#!/bin/sh\nif [ "$1" = --help ]; then '${llamaServer}' --help | grep -v spec-; else exec '${llamaServer}' "$@"; fi\n`
  await writeFile(old, script, { mode: 0o755 })
  const agent = await world.startAgent({ llamaServer: old })
  await world.applyModel('small', { source: world.files.serve('/small.gguf', draft).url })
  await serveDrafting(world)
  const { port } = await agent.untilReady('chat')
  expect(await draftedBy(port)).toBeGreaterThan(0)
})
