import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { loadNodeId } from '../../../src/agent-core/state/node-id.ts'
import { ensureSocketFolder, maxSocketPathBytes, socketPathFor } from '../../../src/agent-core/state/socket-path.ts'
import { defaultStateDir, openStateFolder } from '../../../src/agent-core/state/state-folder.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
beforeEach(async () => {
  folder = await temporaryFolder()
})
afterEach(async () => folder[Symbol.asyncDispose]())

const modeOf = async (file: string) => (await stat(file)).mode & 0o777

describe('the state folder', () => {
  test.each([
    ['darwin', {}, '/Users/me/Library/Application Support/Metalbar'],
    ['linux', {}, '/Users/me/.local/state/metalbar'],
    ['linux', { XDG_STATE_HOME: '/var/state' }, '/var/state/metalbar'],
    ['linux', { XDG_STATE_HOME: 'relative' }, '/Users/me/.local/state/metalbar'],
  ] as const)('on %s with %j is %s', (platform, env, dir) => {
    expect(defaultStateDir(platform, env, '/Users/me')).toBe(dir)
  })

  test('is made with its parents and is for its owner alone, also if it was open before', async () => {
    const fresh = path.join(folder.dir, 'a/b')
    const open = path.join(folder.dir, 'open')
    await mkdir(open)
    await chmod(open, 0o755)
    const results = [await openStateFolder(fresh), await openStateFolder(open)]
    expect({ results, modes: [await modeOf(fresh), await modeOf(open)] }).toEqual({
      results: [fresh, open].map((dir) => ({
        ok: true,
        folder: { dir, lockFile: path.join(dir, 'agent.lock'), nodeFile: path.join(dir, 'node.json') },
      })),
      modes: [0o700, 0o700],
    })
  })

  test('that is a file is refused in a sentence', async () => {
    const file = path.join(folder.dir, 'file')
    await writeFile(file, '')
    expect(await openStateFolder(file)).toEqual({
      ok: false,
      message: `The state folder ${file} cannot be used: EEXIST: file already exists, mkdir '${file}'; choose another with --state-dir.`,
    })
  })
})

describe('the node id', () => {
  const ids = ['11111111-1111-4111-8111-111111111111', '22222222-2222-4222-8222-222222222222']
  const load = (now = 5) => {
    const newId = () => ids.shift() ?? ''
    return loadNodeId({ file: path.join(folder.dir, 'node.json'), displayName: 'studio', newId, now: () => now })
  }

  test('is made once, kept, and set aside with a sentence when it cannot be read', async () => {
    const [first, second] = ids
    const file = path.join(folder.dir, 'node.json')
    const made = await load()
    const kept = await load()
    await writeFile(file, '{"schema":1,"nodeId":"nonsense"}')
    const anew = await load()
    expect({ made, kept, anew, files: await readdir(folder.dir), mode: await modeOf(file) }).toEqual({
      made: { nodeId: first, displayName: 'studio', notice: undefined },
      kept: { nodeId: first, displayName: 'studio', notice: undefined },
      anew: { nodeId: second, displayName: 'studio', notice: expect.stringContaining(`${file}.broken-5`) as unknown },
      files: ['node.json', 'node.json.broken-5'],
      mode: 0o600,
    })
    expect(await readFile(`${file}.broken-5`, 'utf8')).toContain('nonsense')
  })

  test('takes the name of the host for people', async () => {
    const { nodeId, displayName } = await loadNodeId({ file: path.join(folder.dir, 'node.json') })
    expect([/^[\da-f-]{36}$/.test(nodeId), displayName.length > 0]).toEqual([true, true])
  })
})

describe('the socket', () => {
  test('lies in the state folder as long as the kernel takes its path', () => {
    const dir = `/${'x'.repeat(maxSocketPathBytes - '/'.length - '/agent.sock'.length)}`
    const tooLong = socketPathFor(`${dir}y`, '/tmp')
    expect([socketPathFor(dir, '/tmp'), tooLong, socketPathFor(`${dir}z`, '/tmp') === tooLong]).toEqual([
      `${dir}/agent.sock`,
      expect.stringMatching(/^\/tmp\/metalbar-[\da-f]{16}\/agent\.sock$/) as unknown,
      false,
    ])
  })

  test('is the same for every spelling of the state folder, in bytes and not in letters', () => {
    const long = `/srv/${'ü'.repeat(60)}`
    const path = socketPathFor(long, '/tmp')
    expect([
      path.startsWith('/tmp/metalbar-'),
      socketPathFor(`${long}/`, '/tmp'),
      socketPathFor(`/srv/x/../${'ü'.repeat(60)}`, '/tmp'),
    ]).toEqual([true, path, path])
  })

  test('does without a temporary folder that is itself too long', () => {
    expect(socketPathFor(`/${'x'.repeat(120)}`, `/${'t'.repeat(80)}`)).toMatch(/^\/tmp\/metalbar-/)
  })

  test('has a private folder, and none that somebody else points elsewhere', async () => {
    const own = path.join(folder.dir, 'metalbar-1')
    const trap = path.join(folder.dir, 'metalbar-2')
    await symlink(own, trap)
    await ensureSocketFolder(path.join(own, 'agent.sock'), '/state')
    await expect(ensureSocketFolder(path.join(trap, 'agent.sock'), '/state')).rejects.toThrow('is a symbolic link')
    expect(await modeOf(own)).toBe(0o700)
  })
})
