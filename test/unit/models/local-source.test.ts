import { mkdir, readdir, realpath, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ModelError } from '../../../src/agent-core/models/errors.ts'
import { resolveLocal } from '../../../src/agent-core/models/local.ts'
import type { WantedModel } from '../../../src/agent-core/models/selection.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const gguf = Buffer.from('GGUF content')

/** What is made of a source in a folder with these files; the folder is written as /F. */
async function resolved(files: Readonly<Record<string, Buffer>>, wanted: WantedModel): Promise<unknown> {
  await using folder = await temporaryFolder()
  const root = await realpath(folder.dir)
  for (const [name, bytes] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true })
    await writeFile(join(root, name), bytes)
  }
  const before = (await readdir(root, { recursive: true })).sort()
  const result = await resolveLocal(join(root, wanted.source), wanted).catch((error: unknown) =>
    error instanceof ModelError ? [error.kind, error.reason, error.message] : error,
  )
  expect((await readdir(root, { recursive: true })).sort()).toEqual(before)
  return JSON.parse(JSON.stringify(result).replaceAll(root, '/F')) as unknown
}

describe('a model on this machine is used where it is', () => {
  test('one file', async () => {
    expect(await resolved({ 'x.gguf': gguf, 'y.gguf': gguf }, { source: 'x.gguf' })).toEqual({
      path: '/F/x.gguf',
      files: ['/F/x.gguf'],
      sizeBytes: 12,
      notes: [],
    })
  })

  test('any part of a split file stands for all of them, with its projector', async () => {
    const files = { 'M-00001-of-00002.gguf': gguf, 'M-00002-of-00002.gguf': gguf, 'mmproj.gguf': gguf }
    expect(await resolved(files, { source: 'M-00002-of-00002.gguf', mmproj: 'mmproj.gguf' })).toEqual({
      path: '/F/M-00001-of-00002.gguf',
      files: ['/F/M-00001-of-00002.gguf', '/F/M-00002-of-00002.gguf'],
      sizeBytes: 24,
      mmproj: '/F/mmproj.gguf',
      notes: [],
    })
  })

  test('a folder with several models, by quantization or by spec.files', async () => {
    const files = { 'd/M-Q8_0.gguf': gguf, 'd/M-Q4_K_M.gguf': gguf, 'd/e/N.gguf': gguf }
    const path = async (wanted: Omit<WantedModel, 'source'>) =>
      ((await resolved(files, { source: 'd', ...wanted })) as { path: string }).path
    expect([await path({ quantization: 'q8_0' }), await path({ files: ['e/N.gguf'] }), await path({})]).toEqual([
      '/F/d/M-Q8_0.gguf',
      '/F/d/e/N.gguf',
      '/F/d/M-Q4_K_M.gguf',
    ])
  })

  test('a folder in MLX format as a whole', async () => {
    const files = { 'm/config.json': Buffer.from('{}'), 'm/model.safetensors': gguf, 'm/README.md': gguf }
    expect(await resolved(files, { source: 'm', format: 'mlx' })).toEqual({
      path: '/F/m',
      files: ['/F/m/config.json', '/F/m/model.safetensors'],
      sizeBytes: 14,
      notes: [],
    })
  })
})

describe('what cannot be used is named', () => {
  test.each<[string, Record<string, Buffer>, WantedModel, string, string, string]>([
    [
      'a part that is missing',
      { 'M-00001-of-00002.gguf': gguf },
      { source: 'M-00001-of-00002.gguf' },
      'transient',
      'ShardMissing',
      'M-00001-of-00002.gguf is one of 2 parts and /F lacks M-00002-of-00002.gguf: put them there or give another source.',
    ],
    [
      'a part that is a web page',
      { 'M-00001-of-00002.gguf': gguf, 'M-00002-of-00002.gguf': Buffer.from('<html>') },
      { source: 'M-00001-of-00002.gguf' },
      'transient',
      'NotAModel',
      '/F/M-00002-of-00002.gguf is not a GGUF file although its name says so: put a model file there.',
    ],
    [
      'a file where the format is a folder',
      { 'x.safetensors': gguf },
      { source: 'x.safetensors', format: 'mlx' },
      'terminal',
      'NotAFile',
      "/F/x.safetensors is one file, but a model of spec.format mlx is a folder: give the folder's path, or correct spec.format.",
    ],
    [
      'a folder without a model',
      { 'm/readme.txt': gguf },
      { source: 'm' },
      'transient',
      'NoSuchFile',
      '/F/m has no GGUF model: it has no model files; give another source.',
    ],
    [
      'several models',
      { 'm/a-Q8_0.gguf': gguf, 'm/b-Q8_0.gguf': gguf },
      { source: 'm' },
      'terminal',
      'Ambiguous',
      '/F/m has several models: a-Q8_0.gguf (12 B), b-Q8_0.gguf (12 B); name the one you mean in spec.source, as /F/m/a-Q8_0.gguf.',
    ],
    [
      'a file outside',
      { 'm/x.gguf': gguf, 'y.gguf': gguf },
      { source: 'm', files: ['../y.gguf'] },
      'terminal',
      'UnsafeName',
      '"../y.gguf" leaves the folder /F/m of spec.source: name a file in it.',
    ],
    [
      'a projector outside',
      { 'm/x.gguf': gguf, 'y.gguf': gguf },
      { source: 'm/x.gguf', mmproj: '../y.gguf' },
      'terminal',
      'UnsafeName',
      '"../y.gguf" leaves the folder /F/m of spec.source: name a file in it.',
    ],
    [
      'a projector that is missing',
      { 'x.gguf': gguf },
      { source: 'x.gguf', mmproj: 'p.gguf' },
      'transient',
      'FileMissing',
      '/F/p.gguf does not exist on this machine: put the model file there or change spec.source.',
    ],
  ])('%s', async (_, files, wanted, kind, reason, message) => {
    expect(await resolved(files, wanted)).toEqual([kind, reason, message])
  })
})
