import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { servedBy } from '../support/served-by-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const root = path.join(import.meta.dirname, '../..')
const folder = await temporaryFolder()
const command = path.join(folder.dir, 'node_modules/.bin/metal-agent')
/** What npm and the launcher find there, which is no clone's node_modules/.bin. */
const ofNode = [path.dirname(process.execPath), '/usr/local/bin', '/usr/bin', '/bin'].join(path.delimiter)
const alone = { env: { PATH: ofNode, HOME: folder.dir }, extendEnv: false, cwd: folder.dir } as const

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
