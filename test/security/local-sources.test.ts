import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { failure, gguf, request, startWorld, staying, type World } from '../unit/models/world.ts'

const key = '-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n'
const notAllowed = { kind: 'terminal', reason: 'ModelSourceNotAllowed' }

let world: World
let lent: string
let home: string
beforeEach(async () => {
  world = await startWorld()
  lent = join(world.folder, 'lent')
  home = join(world.folder, 'home')
  await mkdir(lent)
  await mkdir(join(home, '.ssh'), { recursive: true })
  await writeFile(join(home, '.ssh', 'id_ed25519'), key)
  await writeFile(join(home, 'tax-2025.pdf'), '%PDF-1.7')
  await writeFile(join(home, 'mine.gguf'), gguf('mine'))
})
afterEach(async () => world[Symbol.asyncDispose]())

const ensure = (source: string, more: object = {}, allowedModelRoots: string[] = []) =>
  world.restarted({ allowedModelRoots }).ensure({ ...request(source), ...more }, staying())

describe('a Model that names files of this machine', () => {
  test('is refused without a folder that a person lent, in the same words whether there is a file or not', async () => {
    const sources = ['mine.gguf', 'absent.gguf', '.ssh/id_ed25519', '.ssh/'].map((name) => join(home, name))
    const failures = await Promise.all(
      [...sources, home, pathToFileURL(join(home, 'mine.gguf')).href].map((source) => failure(ensure(source))),
    )
    const sentences = failures.map(({ message = '' }) => message.replace(/^\S+ /, ''))
    expect(failures).toEqual(Array(6).fill(expect.objectContaining(notAllowed)))
    expect([...new Set(sentences)]).toEqual([expect.stringContaining('--allowed-model-roots')])
  })

  test('is served from a lent folder, also where that is written with ~ or is a link itself', async () => {
    await writeFile(join(lent, 'm.gguf'), gguf('lent'))
    await symlink(lent, join(home, 'models'))
    const source = join(lent, 'm.gguf')
    const models = world.restarted({ allowedModelRoots: ['~/models'], homeDir: home })
    expect([await ensure(source, {}, [lent]), await models.ensure(request(source), staying())]).toMatchObject([
      { path: source, sizeBytes: 4096 },
      { path: source, sizeBytes: 4096 },
    ])
  })

  test.each<[string, (source: string) => Promise<object>]>([
    ['a link to a file', async (at) => (await symlink(join(home, 'mine.gguf'), at), {})],
    ['a projector', async (at) => (await writeFile(at, gguf('A')), { mmproj: join(home, 'mine.gguf') })],
  ])('does not leave the lent folder by %s', async (_, prepare) => {
    const source = join(lent, 'm.gguf')
    const more = await prepare(source)
    expect(await failure(ensure(source, more, [lent]))).toMatchObject(notAllowed)
  })

  test('reads nothing of our own folder in the store', async () => {
    const partials = join(world.store, '.metalbar', 'partials')
    await mkdir(partials, { recursive: true })
    await writeFile(join(partials, 'sha-1'), gguf('somebody else'))
    expect(await failure(ensure(join(partials, 'sha-1')))).toMatchObject(notAllowed)
  })
})

describe('of a file that is no model nothing is told, though its folder is lent', () => {
  test('not the name or length of what lies in the folder', async () => {
    await writeFile(join(home, 'notes.gguf'), 'my diary')
    await symlink('/etc/passwd', join(home, 'passwd.gguf'))
    const formats = ['gguf', 'mlx', 'custom']
    const messages = await Promise.all(
      formats.map(async (format) => (await failure(ensure(join(home, '.ssh'), { format }, [home]))).message),
    )
    const listing = await failure(ensure(home, { quantization: 'Q9_X' }, [home]))
    for (const text of [...messages, listing.message]) {
      expect(text).not.toMatch(/id_ed25519|tax-2025|notes|passwd|\d+ (?:B|kB)\b.*id_/)
    }
    expect(listing.message).toContain('mine.gguf')
  })

  test.each(['gguf', 'custom', 'safetensors', 'pytorch'])('not its digest (spec.format %s)', async (format) => {
    const source = join(home, '.ssh', 'id_ed25519')
    const failed = await failure(ensure(source, { format, sha256: '0'.repeat(64) }, [home]))
    expect(failed.reason).toMatch(/NotAModel|NotAFile/)
    expect(failed.message).not.toMatch(/[0-9a-f]{64}/)
  })

  test('nor is it given to a server as a projector', async () => {
    const source = join(home, 'mine.gguf')
    const mmproj = join(home, '.ssh', 'id_ed25519')
    const refused = failure(ensure(source, { mmproj }, [home]))
    expect(await refused).toMatchObject({ reason: 'NotAModel', message: expect.stringContaining(mmproj) as string })
    await writeFile(join(home, 'mmproj.gguf'), gguf('projector'))
    expect(await ensure(source, { mmproj: 'mmproj.gguf' }, [home])).toMatchObject({ path: source })
  })

  test('nor is it given to a server whose error would tell how it begins', async () => {
    const source = join(home, '.ssh', 'id_ed25519')
    const failures = await Promise.all(['gguf', 'custom'].map((format) => failure(ensure(source, { format }, [home]))))
    expect(failures).toMatchObject([{ reason: 'NotAModel' }, { reason: 'NotAModel' }])
  })
})
