import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import type { Logger } from '../../../src/agent-core/observability/logger.ts'
import { KeptToken, type Cipher } from '../../../src/main/system/kept-token.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const token = 'hf_secretOfMine'

/** Not what a keychain does, but nothing of the text is left to be read. */
const cipher = (changes: Partial<Cipher> = {}): Cipher => ({
  isPossible: () => true,
  isThere: () => Promise.resolve(true),
  encrypt: (text) => Promise.resolve(Buffer.from(Buffer.from(text).map((byte) => byte ^ 0xff))),
  decrypt: (content) =>
    Promise.resolve({ text: Buffer.from(content.map((byte) => byte ^ 0xff)).toString(), isOutdated: false }),
  ...changes,
})

async function world(changes: Partial<Cipher> = {}) {
  const folder = await temporaryFolder()
  const logged: unknown[] = []
  const keep = (...line: unknown[]): void => void logged.push(line)
  const log: Logger = { debug: keep, info: keep, warn: keep, error: keep }
  const at = (with_: Partial<Cipher>) => new KeptToken({ stateDir: folder.dir, cipher: cipher(with_), log })
  return { ...folder, kept: at(changes), at, logged }
}

test('a token is kept encrypted, for this user alone, over a start of the app, until it is removed', async () => {
  await using all = await world()
  const before = await all.kept.state()
  await all.kept.set(token)
  const [file = ''] = await readdir(all.dir)
  const { mode } = await stat(path.join(all.dir, file))
  const next = all.at({})
  expect({
    before,
    after: await next.state(),
    read: await next.read(),
    mode: (mode & 0o777).toString(8),
    isReadable: (await readFile(path.join(all.dir, file), 'latin1')).includes('hf_'),
  }).toEqual({ before: 'none', after: 'kept', read: token, mode: '600', isReadable: false })
  await next.remove()
  expect([await next.state(), await next.read(), await readdir(all.dir)]).toEqual(['none', undefined, []])
})

test('is never logged', async () => {
  await using all = await world()
  await all.kept.set(token)
  await all.kept.read()
  const broken = all.at({ decrypt: () => Promise.reject(new Error('no')) })
  await broken.read().catch(() => undefined)
  await all.kept.remove()
  expect(all.logged.length).toBeGreaterThan(2)
  expect(JSON.stringify(all.logged)).not.toContain('secretOfMine')
})

test('where the keychain does not give it back, that is said, until it is written anew', async () => {
  await using all = await world({ decrypt: () => Promise.reject(new Error('user canceled')) })
  await all.kept.set(token)
  const before = await all.kept.state()
  await expect(all.kept.read()).rejects.toThrow('the keychain does not give it back')
  const after = await all.kept.state()
  await all.kept.set(token)
  expect([before, after, await all.kept.state()]).toEqual(['kept', 'unreadable', 'kept'])
})

test('without a keychain none is kept, and the refusal says what to do', async () => {
  await using all = await world({ isPossible: () => false })
  await expect(all.kept.set(token)).rejects.toMatchObject({
    code: 'refused',
    message: expect.stringMatching(/no keychain.*name it in the settings/) as unknown,
  })
  await expect(all.at({ isThere: () => Promise.resolve(false) }).set(token)).rejects.toMatchObject({ code: 'refused' })
  expect([await all.kept.state(), await readdir(all.dir)]).toEqual(['unavailable', []])
})

test('whether there is one is told without the keychain, for which the system may ask a person', async () => {
  const never = () => Promise.reject(new Error('asked'))
  await using all = await world({ isThere: never, decrypt: never })
  const before = await all.kept.state()
  await all.at({}).set(token)
  expect([before, await all.kept.state()]).toEqual(['none', 'kept'])
})

test('a file that is not ours is unreadable, and can be removed', async () => {
  await using all = await world({ decrypt: () => Promise.reject(new Error('bad decrypt')) })
  await writeFile(path.join(all.dir, 'hub-token.encrypted'), 'something')
  await expect(all.kept.read()).rejects.toThrow()
  const state = await all.kept.state()
  await all.kept.remove()
  expect([state, await all.kept.state()]).toEqual(['unreadable', 'none'])
})

test('what was pasted with spaces around it is kept without them, and what is no token is refused in one sentence', async () => {
  await using all = await world()
  await all.kept.set(` ${token}\n`)
  const read = await all.kept.read()
  for (const pasted of ['two words', '', ' \n', 'hf_\u200bx', 'x'.repeat(5_000)]) {
    await expect(all.kept.set(pasted)).rejects.toMatchObject({
      code: 'refused',
      message: expect.stringMatching(/^This is not a token: [^✖\n]*$/) as unknown,
    })
  }
  expect([read, await all.kept.read()]).toEqual([token, token])
})

test('a file that cannot be read is unreadable, and fails nothing else that the window asks for', async () => {
  await using all = await world()
  await mkdir(path.join(all.dir, 'hub-token.encrypted'))
  expect(await all.kept.state()).toBe('unreadable')
})

test('one that is encrypted in an outdated way is encrypted anew as it is read', async () => {
  await using all = await world({ decrypt: () => Promise.resolve({ text: token, isOutdated: true }) })
  const file = path.join(all.dir, 'hub-token.encrypted')
  await writeFile(file, 'outdated')
  expect([await all.kept.read(), await all.at({}).read(), (await stat(file)).mode & 0o777]).toEqual([
    token,
    token,
    0o600,
  ])
})

test('what was removed while it was encrypted anew stays removed', async () => {
  await using all = await world({
    decrypt: () => Promise.resolve({ text: token, isOutdated: true }),
    encrypt: async () => {
      await all.kept.remove()
      return Buffer.from('anew')
    },
  })
  await writeFile(path.join(all.dir, 'hub-token.encrypted'), 'outdated')
  expect([await all.kept.read(), await readdir(all.dir)]).toEqual([token, []])
})
