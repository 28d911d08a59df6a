import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { servedBy } from '../support/served-by-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const root = path.join(import.meta.dirname, '../..')
const build = path.join(root, 'tasks/package/build-command.ts')
const folder = await temporaryFolder()
const command = path.join(folder.dir, 'metal-agent')
// As a process of its own: what a test sets in its environment makes another build.
beforeAll(async () => {
  await execa(process.execPath, [build, command], { env: { NODE_ENV: undefined } })
})
afterAll(() => folder[Symbol.asyncDispose]())

/** Nothing of this machine: no PATH on which a Node.js could be found. */
const bare = { env: {}, extendEnv: false, cwd: folder.dir, reject: false } as const

test('the self-contained command runs with nothing beside it and no Node.js on PATH', async () => {
  const { exitCode, stdout } = await execa(command, ['--version'], bare)
  expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/^metal-agent \d+\.\d+\.\d+\n {2}git commit: /)])
})

test('the self-contained command serves a model to a completion and shows its window, its workers and page out of its own file', async () => {
  await using served = await servedBy({ command: [command], args: ['--client-port', String(await freePort())] })
  const { agent } = served
  const proxy = await agent.shows(({ host }) => host.clientProxy, 'a client proxy')
  const copies = await readdir(path.join(agent.stateDir, 'command'))
  const proxied = await fetch(`${proxy}/v1/models/tiny.gguf`)
  expect([copies.length, await proxied.json()]).toEqual([1, expect.objectContaining({ id: 'tiny' })])
  expect(await served.complete()).toMatchObject({ choices: [{ message: { role: 'assistant' } }] })

  const { stdout } = await execa(command, ['ui', '--state-dir', agent.stateDir])
  const page = await fetch(new URL('/', /http\S+/.exec(stdout)?.[0]))
  const html = await page.text()
  const [, script = ''] = /src="\.?(\/assets\/[^"]+\.js)"/.exec(html) ?? []
  const loaded = await fetch(new URL(script, page.url))
  expect([page.status, loaded.status, (await loaded.text()).length > 100_000]).toEqual([200, 200, true])
  const troubles = agent.log.filter(({ level }) => level === 'warn' || level === 'error')
  expect(troubles.map(({ text }) => text)).toEqual([
    expect.stringMatching(/^There is no Metal on/),
    expect.stringMatching(/^192\.0\.2\.10 is on no interface/),
  ])
})

test('the self-contained command names no folder of the machine that built it', async () => {
  const file = await readFile(command)
  expect([root, 'metalbar-command-'].filter((place) => file.includes(place))).toEqual([])
})
