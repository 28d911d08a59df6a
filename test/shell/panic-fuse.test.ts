import { mkdir, truncate, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { answers } from '../../src/contract/queries.ts'
import type { ShownEntry } from '../support/electron-stand-in/menu.ts'
import { eventually } from '../support/eventually.ts'
import { cutPower } from '../support/power-cut.ts'
import { servingWorld } from '../support/serving-world.ts'
import { missingBrowser, startShellBrowser } from '../support/shell-browser.ts'
import { ShellApp, stateDirIn } from '../support/shell-app.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const mib = 1024 ** 2

/** Each needs a fifth more than its file and 512 MiB, so that the large one needs more than half of the budget; both fit together. */
const budgetBytes = 1_200 * mib
const sizes = { large: 100 * mib, small: mib } as const
type Name = keyof typeof sizes

/** A folder for the app on a machine that ends and boots again, and a cluster that wants models of it. */
async function machine() {
  await using stack = new AsyncDisposableStack()
  const world = stack.use(await servingWorld())
  const { dir } = stack.use(await temporaryFolder())
  const stateDir = stateDirIn(dir)
  await mkdir(stateDir, { recursive: true, mode: 0o700 })
  await writeFile(path.join(stateDir, 'start-settings.json'), JSON.stringify({ memoryBudgetBytes: budgetBytes }))
  const apply = async (name: Name) => {
    const file = path.join(dir, `${name}.gguf`)
    await writeFile(file, 'GGUF and nothing more')
    await truncate(file, sizes[name])
    world.apply(name, { loadMs: 300 }, file)
  }
  const boot = (chromium?: string) =>
    ShellApp.start({
      folder: dir,
      kubeconfig: world.sim.kubeconfig(),
      preferences: { ...world.preferences, allowedModelRoots: [dir] },
      ...(chromium !== undefined && { chromium }),
    })
  const events = (reason: string) =>
    world.sim
      .list('events', { namespace: 'default' })
      .filter((event) => event['reason'] === reason)
      .map((event) => z.object({ involvedObject: z.object({ name: z.string() }) }).parse(event).involvedObject.name)
  const owned = stack.move()
  return { stateDir, apply, boot, events, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

const untilServing = (app: ShellApp, name: Name) =>
  eventually(async () => (await app.service(name)).state === 'ready', { what: `${name} to be served` })

const untilHeld = (app: ShellApp, name: Name) =>
  eventually(
    async () => {
      const service = await app.service(name)
      return service.reason === 'HeldAfterPanic' && service
    },
    { what: `${name} to be held` },
  )

/** As of when the machine's end was noticed last. */
async function toldSince(app: ShellApp): Promise<string[]> {
  await using agent = await app.agent()
  const { entries } = answers.history.parse(await agent.query({ name: 'history', limit: 100 }))
  const told = entries.toReversed().map(({ kind, service }) => (service ? `${kind} ${service.name}` : kind))
  return told.slice(told.lastIndexOf('machineEnded') + 1)
}

/** What cannot be chosen of the menu, which breaks long sentences into lines. */
const sentencesIn = (menu: readonly ShownEntry[]): string =>
  menu.flatMap((entry) => (typeof entry === 'string' ? (/^\((.*)\)$/.exec(entry)?.[1] ?? []) : [])).join(' ')

/** The menu says what the agent does of it, and what can be done about it. */
const untilSaid = (app: ShellApp, entry: string) =>
  eventually(
    async () => {
      const [menu, { panicFuse }] = [await app.menu(), await app.snapshot()]
      return panicFuse !== undefined && sentencesIn(menu).includes(panicFuse.message) && menu.includes(entry)
    },
    { what: `the menu to say what the agent says, and ${entry}` },
  )

const notification = z.object({ title: z.string(), body: z.string(), actions: z.array(z.string()) })

describe.concurrent('after a power cut while models ran', () => {
  test('they start one by one, the largest last; after a second one the large one is held, and Serve again in the menu serves it', async () => {
    await using here = await machine()
    const { apply, boot, events } = here
    {
      await using app = await boot()
      for (const name of ['large', 'small'] as const) await apply(name)
      for (const name of ['large', 'small'] as const) await untilServing(app, name)
      await cutPower(app, 'first')
    }
    {
      await using app = await boot()
      await untilServing(app, 'large')
      expect(await toldSince(app)).toEqual(['started small', 'ready small', 'started large', 'ready large'])
      await untilSaid(app, 'Start all at once')
      await cutPower(app, 'second')
    }
    await using app = await boot()
    const { message } = await untilHeld(app, 'large')
    await untilServing(app, 'small')
    const { panicFuse: fuse } = await app.snapshot()
    expect({ fuse, message }).toEqual({
      fuse: {
        state: 'held',
        since: expect.any(String) as unknown,
        message: expect.stringMatching(/^This machine went down .* Waiting: default\/large\.$/) as unknown,
      },
      message: expect.stringMatching(/^This machine went down .* or with Serve again in the window\.$/) as unknown,
    })
    await untilSaid(app, 'Serve again')
    const told = await eventually(async () => {
      const all = z.array(notification).parse(await app.ask({ do: 'notifications' }))
      const held = all.filter(({ title }) => title === 'Large models wait for you')
      return held.length > 0 && held
    })
    expect(told).toEqual([
      {
        title: 'Large models wait for you',
        body: expect.stringMatching(/^This machine went down/) as unknown,
        actions: ['Serve again'],
      },
    ])
    await app.choose('Serve again')
    for (const name of ['large', 'small'] as const) await untilServing(app, name)
    await eventually(async () => !/Serve again|without a clean shutdown/.test(JSON.stringify(await app.menu())), {
      what: 'the menu to say no more of it',
    })
    expect([(await app.snapshot()).panicFuse, events('HeldAfterPanic')]).toEqual([undefined, ['large']])
  })

  test('the window says in the agent’s words that a model is held, and one press serves it', async ({ skip }) => {
    const missing = missingBrowser()
    skip(missing !== undefined, missing)
    await using here = await machine()
    await using browser = await startShellBrowser()
    const { stateDir, apply, boot } = here
    {
      await using app = await boot()
      await apply('large')
      await untilServing(app, 'large')
      await cutPower(app, 'second')
      const ends = [{ bootId: 'first', noticedAt: new Date().toISOString(), isSoon: true, hasReport: false }]
      const fuse = { schema: 1, leftIn: null, outlivedUpTo: null, ends, held: null, told: [] }
      await writeFile(path.join(stateDir, 'panic-fuse.json'), JSON.stringify(fuse))
    }
    await using app = await boot(browser.endpoint)
    await untilHeld(app, 'large')
    const { panicFuse } = await app.snapshot()
    await app.choose('Open Metalbar')
    const page = await browser.window()
    await page.getByText(panicFuse?.message ?? 'none', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Serve again' }).click()
    await untilServing(app, 'large')
    await page.getByRole('button', { name: 'Serve again' }).waitFor({ state: 'hidden' })
    expect((await app.snapshot()).panicFuse).toBeUndefined()
  })
})
