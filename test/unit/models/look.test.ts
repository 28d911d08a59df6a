import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readGgufHeader } from '../../../src/agent-core/models/gguf/file-header.ts'
import { GgufError } from '../../../src/agent-core/models/gguf/gguf.ts'
import { lookAtServer, lookHere, projectorAt } from '../../../src/agent-core/models/look.ts'
import type { Remote } from '../../../src/agent-core/models/remote.ts'
import { writeGguf, writeLlamaGguf } from '../../support/gguf-writer.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { failure, request, startWorld, staying } from './world.ts'

const tensors = [{ name: 'blk.0.attn_q.weight', dimensions: [8, 8] }]
const llama = { 'general.architecture': 'llama' }
const parts = { 'split.no': { type: 'uint16', value: 0 }, 'split.count': { type: 'uint16', value: 2 } } as const

test.each<[string, string, Parameters<typeof writeGguf>[1]]>([
  ['projector', 'x.gguf', { metadata: { 'general.architecture': 'clip' }, tensors }],
  ['adapter', 'x.gguf', { metadata: { ...llama, 'general.type': 'adapter' }, tensors }],
  ['importance matrix', 'x.gguf', { metadata: { 'general.type': 'imatrix' }, tensors }],
  ['file without tensors', 'x.gguf', { metadata: llama, tensors: [] }],
  ['one of 2 parts', 'first.gguf', { metadata: { ...llama, ...parts }, tensors }],
])('%s: is called that, and neither fits nor is served', async (what, name, content) => {
  await using world = await startWorld()
  const file = join(world.folder, name)
  await writeGguf(file, content)
  const sentence = expect.stringContaining(what) as string
  await expect(lookHere(file, readGgufHeader)).rejects.toMatchObject({ name: 'GgufError', message: sentence })
  const { url } = world.server.serve(`/${name}`, await readFile(file))
  for (const source of [file, url]) {
    const failed = failure(world.models.ensure(request(source), staying()))
    expect(await failed).toMatchObject({ reason: 'NotAModel', message: sentence })
  }
})

test('a projector that is removed meanwhile is told in a sentence', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'mmproj.gguf')
  await expect(projectorAt(file, readGgufHeader)).rejects.toThrow(GgufError)
  await writeLlamaGguf(file)
  const header = await readGgufHeader(file)
  await rm(file)
  await expect(projectorAt(file, () => Promise.resolve(header))).rejects.toThrow(
    /mmproj\.gguf cannot be read \(ENOENT.*\): check the volume it is on\.$/,
  )
})

test('a model in parts on a server is as large as all parts together, and its projector as large as the server says', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'x.gguf')
  await writeLlamaGguf(file)
  const header = await readGgufHeader(file)
  const part = (fileName: string, role = 'weights') => ({
    fileName,
    path: fileName,
    url: `https://host/${fileName}`,
    role,
  })
  const files = [
    part('M-00001-of-00002.gguf'),
    part('M-00002-of-00002.gguf'),
    { ...part('mmproj.gguf', 'mmproj'), sizeBytes: 77 },
  ]
  const remote = {
    resolve: () => Promise.resolve({ files, primary: 'M-00001-of-00002.gguf', notes: [] }),
    header: () => Promise.resolve(header),
  } as unknown as Remote
  const look = await lookAtServer(
    remote,
    { source: 'https://host/M', namespace: 'default' },
    new AbortController().signal,
  )
  const partBytes = header.tensors.reduce((sum, { bytes }) => sum + bytes, header.dataOffset)
  expect(look).toMatchObject({ fileBytes: 2 * partBytes, mmproj: { fileBytes: 77 }, isHere: false })
  expect(partBytes).toBeGreaterThan(header.dataOffset)
})
