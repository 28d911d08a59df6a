import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { servedBy } from '../support/served-by-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const root = path.join(import.meta.dirname, '../..')
const folder = await temporaryFolder()
const installed = path.join(folder.dir, 'node_modules/metalbar')
const command = path.join(folder.dir, 'node_modules/.bin/metal-agent')
/** What npm and the launcher find there, which is no clone's node_modules/.bin. */
const ofNode = [path.dirname(process.execPath), '/usr/local/bin', '/usr/bin', '/bin'].join(path.delimiter)
const alone = { env: { PATH: ofNode, HOME: folder.dir }, extendEnv: false, cwd: folder.dir } as const

const packageFile = z.looseObject({ private: z.boolean().optional(), dependencies: z.unknown().optional() })

// As processes of their own: what a test sets in its environment makes another build.
beforeAll(async () => {
  const env = { NODE_ENV: undefined }
  const { stdout } = await execa(process.execPath, ['tasks/package/build-npm.ts', folder.dir], { cwd: root, env })
  await execa('npm', ['install', '--offline', '--no-audit', '--no-fund', stdout.trim()], alone)
})
afterAll(() => folder[Symbol.asyncDispose]())

test('the npm package installs without a network and brings both names of the command, which run', async () => {
  const said = ['metal-agent', 'llmkube-metal-agent'].map(async (name) => {
    const { stdout } = await execa(path.join(path.dirname(command), name), ['--version'], alone)
    return stdout
  })
  const version: unknown = expect.stringMatching(/^metal-agent \d+\.\d+\.\d+\n {2}git commit: /)
  expect(await Promise.all(said)).toEqual([version, version])
  expect(await readdir(path.join(folder.dir, 'node_modules'))).toEqual(['.bin', '.package-lock.json', 'metalbar'])
})

test('the npm package holds what runs, licences and nothing of the workshop', async () => {
  const files = await readdir(installed, { recursive: true, withFileTypes: true })
  const names = files
    .filter((one) => one.isFile())
    .map((one) => path.relative(installed, path.join(one.parentPath, one.name)))
  const usual = /^(?:out\/cli\/(?:chunks\/)?[^/]+\.js|out\/renderer\/(?:index\.html|assets\/[^/]+\.(?:js|css|svg)))$/
  expect(names.filter((name) => !usual.test(name)).sort()).toEqual([
    'LICENSE',
    'README.md',
    'THIRD_PARTY_NOTICES',
    'bin/metal-agent',
    'package.json',
  ])
  expect(names.filter((name) => name.includes('-worker-')).length).toBeGreaterThan(3)
  const texts = await Promise.all(names.map((name) => readFile(path.join(installed, name), 'utf8')))
  expect(names.filter((_, at) => texts[at]?.includes(root) === true)).toEqual([])
  expect(names.filter((_, at) => texts[at]?.includes('sourceMappingURL=') === true)).toEqual([])
})

test('the npm package has the pages of the documentation that the doctor names', async () => {
  const { stdout } = await execa(command, ['doctor', '--page', 'heartbeat'], alone)
  expect(stdout).toMatch(/^## States\n/)
})

test('the npm package depends on nothing and may be published, which the repository may not', async () => {
  const read = async (file: string) => packageFile.parse(JSON.parse(await readFile(file, 'utf8')))
  expect(await read(path.join(installed, 'package.json'))).toEqual({
    name: 'metalbar',
    version: expect.stringMatching(/^\d+\.\d+\.\d+/) as unknown,
    description: expect.any(String) as unknown,
    license: 'Apache-2.0',
    type: 'module',
    engines: { node: '>=24' },
    os: ['darwin', 'linux'],
    bin: { 'metal-agent': 'bin/metal-agent', 'llmkube-metal-agent': 'bin/metal-agent' },
  })
  expect((await read(path.join(root, 'package.json'))).private).toBe(true)
})

test('the command of the npm package serves a model to a completion, shows its window, and ends in order at a signal', async () => {
  await using served = await servedBy({ command: [command], env: { PATH: ofNode } })
  expect(await served.complete()).toMatchObject({ choices: [{ message: { role: 'assistant' } }] })
  const { stdout } = await execa(command, ['ui', '--state-dir', served.agent.stateDir], alone)
  const page = await fetch(new URL('/', /http\S+/.exec(stdout)?.[0]))
  expect([page.status, (await page.text()).includes('<script')]).toEqual([200, true])
  // To the launcher's process, as a shell or launchd sends it.
  expect(await served.agent.stop()).toEqual({ code: 0, signal: null })
  const troubles = served.agent.log.filter(({ level }) => level === 'warn' || level === 'error')
  expect(troubles.map(({ text }) => text)).toEqual([
    expect.stringMatching(/^There is no Metal on/),
    expect.stringMatching(/^192\.0\.2\.10 is on no interface/),
  ])
})
