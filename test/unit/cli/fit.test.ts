import { readFile, writeFile } from 'node:fs/promises'
import { totalmem } from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { startFakeHub } from '../../support/fake-hub.ts'
import { startFileServer } from '../../support/file-server.ts'
import { writeGguf, writeLlamaGguf } from '../../support/gguf-writer.ts'
import { modelOf } from '../../support/memory/model-shapes.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { runVerb } from '../../support/run-verb.ts'

/** As on a machine without agent, cluster and llama-server. */
async function fit(folder: string, ...args: string[]) {
  const env = { PATH: '/nowhere', LANG: 'C.UTF-8', ...hubEnv }
  const { code: exitCode, ...said } = await runVerb(['fit', ...args], folder, { env, temporaryDir: folder })
  return { exitCode, ...said }
}

/** No request reaches the real Hub. */
const hubEnv: Record<string, string> = { HF_ENDPOINT: 'http://127.0.0.1:9' }

const bytes = z.number().int().nonnegative()
const answer = z.object({
  items: z.strictObject({
    weights: bytes,
    kv: bytes,
    compute: bytes,
    promptCache: bytes,
    mmproj: bytes,
    overhead: bytes,
  }),
  totalBytes: bytes,
  from: z.literal('machine'),
  verdict: z.string(),
  ways: z.array(z.looseObject({ kind: z.string() })),
})

const shape = { blocks: 4, embedding: 1024, heads: 16, kvHeads: 4, headLength: 64, feedForward: 2048, vocabulary: 1000 }

test('a small file fits: the table ends with the verdict, and the exit code is 0', async () => {
  await using folder = await temporaryFolder()
  await writeLlamaGguf(path.join(folder.dir, 'tiny.gguf'))
  const { exitCode, stdout, stderr } = await fit(folder.dir, 'tiny.gguf', '--context', '512')
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
  expect(stdout.split('\n').map((line) => line.slice(0, 27).trimEnd())).toEqual([
    '512 tokens of context, 4 sl',
    expect.stringMatching(/^Weights +\d+ kB$/),
    expect.stringMatching(/^KV cache +131 kB$/),
    expect.stringMatching(/^Compute buffers +[\d.]+ MB$/),
    expect.stringMatching(/^Prompt cache +537 MB$/),
    expect.stringMatching(/^Projector +0 B$/),
    expect.stringMatching(/^Overhead +[\d.]+ MB$/),
    expect.stringMatching(/^Total +\d+ MB$/),
    expect.stringMatching(/^Budget +[\d.]+ [GT]B$/),
    expect.stringMatching(/^Available now +[\d.]+ [GT]B$/),
    '',
    expect.stringMatching(/^It fits: it needs/),
    expect.stringMatching(/^The prompt cache is counted/),
    "Sized with this machine's o",
    '',
  ])
})

test('a file that is larger than the machine does not: in JSON in bytes, and the exit code is 6', async () => {
  await using folder = await temporaryFolder()
  const wide = { ...shape, blocks: 1, embedding: 8192, vocabulary: Math.ceil(totalmem() / 8192 / 4) }
  const { metadata, tensors } = modelOf('llama', { ...wide, vocabulary: 1000 })
  const large = tensors.map((one) =>
    one.name === 'output.weight' ? { ...one, dimensions: [8192, wide.vocabulary] } : one,
  )
  await writeGguf(path.join(folder.dir, 'huge.gguf'), { metadata, tensors: large, weights: 'hole' })
  const { exitCode, stdout } = await fit(folder.dir, 'huge.gguf', '--json')
  const { items, totalBytes, verdict } = answer.parse(JSON.parse(stdout))
  expect({ exitCode, verdict }).toEqual({ exitCode: 6, verdict: 'doesNotFit' })
  expect(items.weights).toBeGreaterThan(totalmem())
  expect(totalBytes).toBe(Object.values(items).reduce((sum, one) => sum + one, 0))
})

test('a context that is too long does not fit, and the ways to fit are true when they are tried', async () => {
  await using folder = await temporaryFolder()
  const bytesPerToken = 32 * 2 * 16 * 64 * 2
  const context = Math.ceil(totalmem() / bytesPerToken / 1024) * 1024
  await writeGguf(path.join(folder.dir, 'long.gguf'), modelOf('llama', { ...shape, blocks: 32, kvHeads: 16, context }))
  const { exitCode, stdout } = await fit(folder.dir, 'long.gguf', '--context', String(context), '--json')
  expect(exitCode).toBe(6)
  const change = z.looseObject({ kind: z.literal('change'), change: z.object({ contextSize: z.number() }) })
  const smaller = answer.parse(JSON.parse(stdout)).ways.flatMap((way) => change.safeParse(way).data ?? [])[0]
  // Less than advised, since the memory that is available changes meanwhile.
  const advised = Math.floor((smaller?.change.contextSize ?? 0) / 2)
  expect(advised).toBeGreaterThan(0)
  expect(await fit(folder.dir, 'long.gguf', '--context', String(advised))).toMatchObject({ exitCode: 0 })
})

test('of a model on a server only the header is read', async () => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'model.gguf')
  await writeLlamaGguf(file)
  await using files = await startFileServer()
  const { url } = files.serve('/model.gguf', await readFile(file))
  const [here, there] = await Promise.all([file, url].map((given) => fit(folder.dir, given, '--json')))
  const items = ({ stdout = '' } = {}) => answer.parse(JSON.parse(stdout)).items
  expect(items(there)).toEqual(items(here))
})

test('of a repository on the Hub the file is chosen as for a Model, and only its header is read', async () => {
  await using folder = await temporaryFolder()
  const names = ['model-F16.gguf', 'model-Q4_K_M.gguf', 'model-Q8_0.gguf']
  const files = names.map((name) => path.join(folder.dir, name))
  for (const [index, file] of files.entries()) await writeLlamaGguf(file, { blocks: index + 1 })
  await using hub = await startFakeHub()
  const content = Object.fromEntries(files.map((file) => [path.basename(file), { file }]))
  await hub.addRepo('owner/name', { ...content, 'README.md': Buffer.from('#') })
  hubEnv['HF_ENDPOINT'] = hub.endpoint
  const itemsOf = async (given: string) =>
    answer.parse(JSON.parse((await fit(folder.dir, given, '--json')).stdout)).items
  const items = await itemsOf('hf://owner/name')
  const read = hub.requests.filter(({ path: url }) => url.includes('/resolve/'))
  expect(items).toEqual(await itemsOf('model-Q4_K_M.gguf'))
  expect(read.map(({ path: url, headers }) => [path.basename(url), headers.range?.replace(/-\d+$/, '-')])).toEqual([
    ['model-Q4_K_M.gguf', 'bytes=0-'],
  ])
})

test.each([
  ['nothing', 2, /^metal-agent: There is no file or folder nothing: give a path, .*\n$/],
  ['file://models/x.gguf', 2, /^metal-agent: file:\/\/models\/x.gguf names the machine models: .*\n$/],
  ['pvc://claim/model.gguf', 2, /^metal-agent: pvc:\/\/claim\/model.gguf is a volume inside the cluster/],
  ['text.gguf', 1, /^metal-agent: .*text\.gguf .*GGUF.*\n$/],
])('%s is refused in one sentence', async (given, exitCode, stderr) => {
  await using folder = await temporaryFolder()
  await writeFile(path.join(folder.dir, 'text.gguf'), 'This is no model. '.repeat(100))
  expect(await fit(folder.dir, given)).toEqual({
    exitCode,
    stdout: '',
    stderr: expect.stringMatching(stderr) as string,
  })
})

test.each([
  ['--context', '-1'],
  ['--slots', 'many'],
  ['--kv', 'q8_0,q4_0'],
])('%s %s is wrong usage', async (option, value) => {
  await using folder = await temporaryFolder()
  await writeLlamaGguf(path.join(folder.dir, 'tiny.gguf'))
  const { exitCode, stderr } = await fit(folder.dir, 'tiny.gguf', option, value)
  expect({ exitCode, stderr }).toEqual({
    exitCode: 2,
    stderr: expect.stringMatching(`^metal-agent: ${option} must be`) as string,
  })
})
