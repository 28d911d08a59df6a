import { createHash } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { digestInStamp } from '../../../src/agent-core/models/store/stamp.ts'
import { eventually } from '../../support/eventually.ts'
import { exists } from '../../support/exists.ts'
import { gguf, request, startWorld, staying, type World } from './world.ts'

let world: World
beforeEach(async () => {
  world = await startWorld()
})
afterEach(() => world[Symbol.asyncDispose]())

const sha256 = (content: Buffer): string => createHash('sha256').update(content).digest('hex')
const right = gguf('R')
const wrong = gguf('W')

/** As LLMKube's Go agent leaves a file, with what a test puts into its stamp. */
async function leftByGoAgent(content: Buffer, stamp: (facts: { size: number; seconds: number }) => string) {
  const path = join(world.store, 'tiny/x.gguf')
  await mkdir(join(world.store, 'tiny'), { recursive: true })
  await writeFile(path, content)
  const { size, mtimeMs } = await stat(path)
  await writeFile(`${path}.sha256`, stamp({ size, seconds: Math.floor(mtimeMs / 1_000) }), { mode: 0o600 })
  return path
}

const stampFor = (content: Buffer) => (facts: { size: number; seconds: number }) =>
  `${sha256(content)} ${facts.size} ${facts.seconds}`

/** Of the file as it is now. */
async function trueStamp(path: string): Promise<string> {
  const { size, mtimeMs } = await stat(path)
  return `${sha256(await readFile(path))} ${size} ${Math.floor(mtimeMs / 1_000)}`
}

const recordedDigest = async (path: string): Promise<string | undefined> =>
  (JSON.parse(await readFile(`${path}.metalbar.json`, 'utf8')) as { files: { sha256?: string }[] }).files[0]?.sha256

test("a file with the Go agent's stamp of the checksum that the Model states is served without reading it whole", async () => {
  const path = await leftByGoAgent(right, stampFor(right))
  const model = await world.models.ensure(
    { ...request('https://nowhere.invalid/x.gguf'), sha256: sha256(right) },
    staying(),
  )
  // The record of a file that was read whole has its digest.
  expect([model.path, await recordedDigest(path)]).toEqual([path, undefined])
})

describe('the file is read whole where the stamp', () => {
  const stamps: Record<string, (facts: { size: number; seconds: number }) => string> = {
    'has the digest alone': () => sha256(right),
    'says another digest': stampFor(wrong),
    'says another length': ({ size, seconds }) => `${sha256(right)} ${size + 1} ${seconds}`,
    'says another time': ({ size, seconds }) => `${sha256(right)} ${size} ${seconds - 1}`,
    'is garbled': () => 'no stamp\0at all',
    'is huge': () => `${sha256(right)} `.repeat(100_000),
    'is empty': () => '',
  }
  test.each(Object.entries(stamps))('%s', async (_, stamp) => {
    const path = await leftByGoAgent(right, stamp)
    await world.models.ensure({ ...request('https://nowhere.invalid/x.gguf'), sha256: sha256(right) }, staying())
    expect(await recordedDigest(path)).toBe(sha256(right))
  })

  test('may be written by others', async () => {
    const path = await leftByGoAgent(right, stampFor(right))
    await chmod(`${path}.sha256`, 0o666)
    await world.models.ensure({ ...request('https://nowhere.invalid/x.gguf'), sha256: sha256(right) }, staying())
    expect(await recordedDigest(path)).toBe(sha256(right))
  })

  test('is a link', async () => {
    const path = await leftByGoAgent(right, () => '')
    const elsewhere = join(world.folder, 'elsewhere')
    await writeFile(elsewhere, await trueStamp(path))
    await rm(`${path}.sha256`)
    await symlink(elsewhere, `${path}.sha256`)
    await world.models.ensure({ ...request('https://nowhere.invalid/x.gguf'), sha256: sha256(right) }, staying())
    expect([await recordedDigest(path), await readFile(elsewhere, 'utf8')]).toEqual([
      sha256(right),
      await trueStamp(path),
    ])
  })

  test('is a file that a server sent for another model', async () => {
    const path = await leftByGoAgent(right, stampFor(right))
    const record = { schema: 1, source: 'http://a/b', sourceSha256: 'ab'.repeat(32), origin: 'downloaded' }
    const files = [{ path: 'x.gguf.sha256', sizeBytes: (await stat(`${path}.sha256`)).size }]
    const all = { ...record, files, primary: 'x.gguf.sha256', completedAt: '2026-01-02T03:04:05.000Z' }
    await writeFile(`${path}.sha256.metalbar.json`, JSON.stringify(all))
    await world.models.ensure({ ...request('https://nowhere.invalid/x.gguf'), sha256: sha256(right) }, staying())
    expect([await recordedDigest(path), await exists(`${path}.sha256`)]).toEqual([sha256(right), true])
  })
})

test('a stamp is not believed about a file that was written to later, whatever time that file was given', async () => {
  const path = await leftByGoAgent(right, stampFor(right))
  const { atime, mtime, ctimeMs } = await stat(path)
  const changed = async (): Promise<number> => {
    await writeFile(path, wrong)
    await utimes(path, atime, mtime)
    return (await stat(path)).ctimeMs
  }
  await eventually(async () => (await changed()) > ctimeMs + 1_100)
  expect([(await stat(path)).mtimeMs, await digestInStamp(path)]).toEqual([mtime.getTime(), undefined])
})

test('no stamp makes a file the right one: what the Model states is fetched beside it, and the stamp corrected', async () => {
  const { url } = world.server.serve('/x.gguf', right)
  const path = await leftByGoAgent(wrong, () => sha256(right))
  const model = await world.models.ensure({ ...request(url), sha256: sha256(right) }, staying())
  expect([(await readFile(model.path)).equals(right), await readFile(`${model.path}.sha256`, 'utf8')]).toEqual([
    true,
    await trueStamp(model.path),
  ])
  expect([(await readFile(path)).equals(wrong), await readFile(`${path}.sha256`, 'utf8')]).toEqual([
    true,
    await trueStamp(path),
  ])
})

test('a download that the Model states the checksum of gets a stamp for the user alone, and loses it with the model', async () => {
  const models = world.restarted({ users: () => [] })
  const { url } = world.server.serve('/x.gguf', right)
  const { path } = await models.ensure({ ...request(url), sha256: sha256(right).toUpperCase() }, staying())
  const stamp = { text: await readFile(`${path}.sha256`, 'utf8'), mode: (await stat(`${path}.sha256`)).mode & 0o777 }
  expect([stamp, await digestInStamp(path)]).toEqual([{ text: await trueStamp(path), mode: 0o600 }, sha256(right)])
  await models.remove('tiny')
  expect(await readdir(world.store)).toEqual(['.metalbar'])
})

test('a download that no Model states the checksum of gets none, and the stamp of what was there before goes', async () => {
  const { url } = world.server.serve('/x.gguf', right)
  await leftByGoAgent(Buffer.alloc(0), stampFor(right))
  const { path } = await world.models.ensure(request(url), staying())
  expect([path, await exists(`${path}.sha256`)]).toEqual([join(world.store, 'tiny/x.gguf'), false])
})

test('a stamp with the digest alone is written anew once the file was read', async () => {
  const path = await leftByGoAgent(right, () => sha256(right))
  await world.models.ensure({ ...request('https://nowhere.invalid/x.gguf'), sha256: sha256(right) }, staying())
  expect(await readFile(`${path}.sha256`, 'utf8')).toBe(await trueStamp(path))
})

test('a list of checksums that a person keeps under the name of a stamp stays as it is', async () => {
  const list = `${sha256(right)}  x.gguf\n`
  const path = await leftByGoAgent(right, () => list)
  await world.models.ensure({ ...request('https://nowhere.invalid/x.gguf'), sha256: sha256(right) }, staying())
  expect(await readFile(`${path}.sha256`, 'utf8')).toBe(list)
})
