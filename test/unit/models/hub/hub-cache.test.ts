import { createHash } from 'node:crypto'
import { mkdir, realpath, symlink, truncate, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { findInHubCache } from '../../../../src/agent-core/models/hub/hub-cache.ts'
import { shareOfThisThread } from '../../../support/processor-time.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const content = Buffer.from('GGUF and three megabytes more'.repeat(100_000))
const sha256 = createHash('sha256').update(content).digest('hex')
const model = '.cache/huggingface/hub/models--org--repo'

/** A home folder with these files (and links, given as text), and what the search finds in it. */
async function searched(
  files: Readonly<Record<string, Buffer | string>>,
  {
    env = {},
    platform = 'linux',
    path = 'sub/M.gguf',
  }: { env?: Record<string, string>; platform?: NodeJS.Platform; path?: string } = {},
): Promise<string | undefined> {
  await using folder = await temporaryFolder()
  const home = await realpath(folder.dir)
  for (const [name, bytes] of Object.entries(files)) {
    await mkdir(dirname(join(home, name)), { recursive: true })
    await (typeof bytes === 'string' ? symlink(bytes, join(home, name)) : writeFile(join(home, name), bytes))
  }
  const own = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, join(home, value)]))
  const { signal } = new AbortController()
  const query = { repo: 'org/repo', path, sha256, sizeBytes: content.length, env: own, home, platform, signal }
  return (await findInHubCache(query))?.slice(home.length + 1)
}

describe('a file that is in another cache already', () => {
  test.each([
    ['as a blob', { [`${model}/blobs/${sha256}`]: content }, {}],
    ['under HF_HOME', { [`hf/hub/models--org--repo/blobs/${sha256}`]: content }, { env: { HF_HOME: 'hf' } }],
    ['under HF_HUB_CACHE', { [`c/models--org--repo/blobs/${sha256}`]: content }, { env: { HF_HUB_CACHE: 'c' } }],
    ['in a snapshot without links', { [`${model}/snapshots/abc/sub/M.gguf`]: content }, {}],
    ["in llama.cpp's cache", { '.cache/llama.cpp/org_repo_sub_M.gguf': content }, {}],
    [
      "in llama.cpp's cache on a Mac",
      { 'Library/Caches/llama.cpp/org_repo_sub_M.gguf': content },
      { platform: 'darwin' },
    ],
    ['in LLAMA_CACHE', { 'l/M.gguf': content }, { env: { LLAMA_CACHE: 'l' } }],
  ] as const)('is found %s', async (_, files, options) => {
    expect(await searched(files, options)).toBe(Object.keys(files)[0])
  })

  test('is found as the file that a snapshot links to', async () => {
    const files = { [`${model}/blobs/etag`]: content, [`${model}/snapshots/abc/sub/M.gguf`]: '../../../blobs/etag' }
    expect(await searched(files)).toBe(`${model}/blobs/etag`)
  })

  test('is not believed for its name: its content is read', async () => {
    const forged = Buffer.from(content)
    forged[1_000_000] = 0
    expect(await searched({ [`${model}/blobs/${sha256}`]: forged })).toBe(undefined)
    const genuine = { [`${model}/blobs/${sha256}`]: forged, [`${model}/snapshots/abc/sub/M.gguf`]: content }
    expect(await searched(genuine)).toBe(`${model}/snapshots/abc/sub/M.gguf`)
  })

  test('is nothing that is half there, a folder or a link to nowhere', async () => {
    const files = {
      [`${model}/blobs/${sha256}`]: content.subarray(1),
      [`${model}/snapshots/abc/sub/M.gguf/x`]: content,
      [`${model}/snapshots/def/sub/M.gguf`]: '../../../blobs/gone',
    }
    expect(await searched(files)).toBe(undefined)
  })

  test('is not looked for outside by a name that leads there', async () => {
    const path = '../../../../../../secret.gguf'
    expect(await searched({ 'secret.gguf': content, [`${model}/snapshots/abc/x`]: content }, { path })).toBe(undefined)
  })

  test('is not there where no cache is', async () => {
    expect(await searched({})).toBe(undefined)
  })

  test('is hashed while this thread does other things', async () => {
    await using folder = await temporaryFolder()
    const path = join(folder.dir, model, 'blobs', sha256)
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, '')
    const sizeBytes = 128 * 1024 ** 2
    await truncate(path, sizeBytes)
    const { signal } = new AbortController()
    const query = { repo: 'org/repo', path: 'M.gguf', sha256, sizeBytes, env: {}, home: folder.dir, signal }
    const share = await shareOfThisThread(async () => {
      expect(await findInHubCache({ ...query, platform: 'linux' })).toBe(undefined)
    })
    expect(share).toBeLessThan(0.5)
  })

  test('is no longer looked for after an abort', async () => {
    await using folder = await temporaryFolder()
    const path = join(folder.dir, model, 'blobs', sha256)
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, content)
    const signal = AbortSignal.abort(new Error('nobody wants it'))
    const rest = { sizeBytes: content.length, env: {}, home: folder.dir, platform: 'linux', signal } as const
    await expect(findInHubCache({ repo: 'org/repo', path: 'M.gguf', sha256, ...rest })).rejects.toThrow(
      'nobody wants it',
    )
  })
})
