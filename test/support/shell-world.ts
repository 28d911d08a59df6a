import type { Page } from 'playwright'
import { servingWorld, type ServingWorld } from './serving-world.ts'
import { startShellBrowser, type ShellBrowser } from './shell-browser.ts'
import { ShellApp } from './shell-app.ts'

export interface ShellWorld extends AsyncDisposable {
  readonly world: ServingWorld
  readonly browser: ShellBrowser
  readonly app: ShellApp
  /** Clicks the icon; answers the window's page, which follows the agent. */
  open(): Promise<Page>
}

/** The app at a cluster of its own where nothing is served yet, with a Chromium for its window. */
export async function shellWorld(): Promise<ShellWorld> {
  await using parts = new AsyncDisposableStack()
  const world = parts.use(await servingWorld())
  const browser = parts.use(await startShellBrowser())
  const app = parts.use(
    await ShellApp.start({
      kubeconfig: world.sim.kubeconfig(),
      preferences: world.preferences,
      chromium: browser.endpoint,
    }),
  )
  await app.icon('idle')
  const owned = parts.move()
  return {
    world,
    browser,
    app,
    open: async () => {
      await app.ask({ do: 'clickIcon' })
      const page = await browser.window()
      await page.getByText('Live').waitFor()
      return page
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
