import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ModelError } from '../../../src/agent-core/models/errors.ts'
import { resolveHttp } from '../../../src/agent-core/models/resolve.ts'
import { isSafePath } from '../../../src/agent-core/models/source.ts'

const of = (url: string, wanted: Parameters<typeof resolveHttp>[2] = {}) => resolveHttp(url, url, wanted)

describe('an address of any server', () => {
  test('is the one file, with the checksum that the Model states', () => {
    expect(of('https://host/d/M.gguf?token=x', { sha256: 'AB'.repeat(32) })).toEqual({
      files: [
        {
          url: 'https://host/d/M.gguf?token=x',
          fileName: 'M.gguf',
          path: 'M.gguf',
          role: 'weights',
          sha256: 'ab'.repeat(32),
        },
      ],
      primary: 'M.gguf',
      notes: [],
    })
  })

  test('of any part of a split file means all of them', () => {
    const { files, primary } = of('https://host/d/My%20M-00002-of-00003.gguf?v=1')
    expect({ primary, files: files.map(({ url, path }) => [url, path]) }).toEqual({
      primary: 'My M-00001-of-00003.gguf',
      files: [1, 2, 3].map((part) => [
        `https://host/d/My%20M-0000${part}-of-00003.gguf?v=1`,
        `My M-0000${part}-of-00003.gguf`,
      ]),
    })
  })

  test.each(['M-00004-of-00003.gguf', 'M-00000-of-00003.gguf', 'M-00001-of-99999.gguf'])(
    'that cannot be a part is one file (%s)',
    (name) => {
      expect(of(`https://host/${name}`).files.map(({ path }) => path)).toEqual([name])
    },
  )

  test.each(['https://host/d', 'https://host/d/', 'https://host/d/M.gguf'])('%s with spec.files and mmproj', (url) => {
    const wanted = { files: ['M.gguf', 'sub/D 1.gguf'], mmproj: 'mmproj.gguf' }
    const { files, primary, mmproj } = of(url, wanted)
    expect({ primary, mmproj, files: files.map(({ url: at, path, role }) => [at, path, role]) }).toEqual({
      primary: 'M.gguf',
      mmproj: 'mmproj.gguf',
      files: [
        ['https://host/d/M.gguf', 'M.gguf', 'weights'],
        ['https://host/d/sub/D%201.gguf', 'D 1.gguf', 'weights'],
        ['https://host/d/mmproj.gguf', 'mmproj.gguf', 'mmproj'],
      ],
    })
  })

  test('of a model in several files that nobody names is refused', () => {
    expect(() => of('https://host/d/', { format: 'mlx' })).toThrow(
      'https://host/d/ cannot be listed, and a model of spec.format mlx has several files: name them in spec.files, or give a Hugging Face repository (hf://owner/name) or the absolute path of a folder.',
    )
  })
})

test('no address and no name puts a file outside the folder of its model', () => {
  const piece = fc.constantFrom(
    '/',
    '..',
    '%2e%2e',
    '%2F',
    '\\',
    '%5C',
    '%00',
    'M',
    '-00001-of-00002',
    '.gguf',
    '.partial',
  )
  const text = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(''))
  const wanted = fc.record({ files: fc.array(text, { maxLength: 2 }), mmproj: text }, { requiredKeys: [] })
  fc.assert(
    fc.property(text, wanted, (path, asked) => {
      try {
        const { files, primary } = of(new URL(`https://host/x/${path}`).href, asked)
        return isSafePath(primary) && files.every((file) => isSafePath(file.path) && new URL(file.url).host === 'host')
      } catch (error) {
        return error instanceof ModelError && error.kind === 'terminal'
      }
    }),
    { numRuns: 2000 },
  )
})
