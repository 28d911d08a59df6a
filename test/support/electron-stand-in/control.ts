import { once } from 'node:events'
import { z } from 'zod'
import { app } from './app.ts'
import { copied } from './clipboard.ts'
import { collectGarbage } from './collect-garbage.ts'
import { press, question } from './dialog.ts'
import { invoke } from './ipc-main.ts'
import { carryOutOnMacos, isMacosRequest, macosRequests } from './macos-control.ts'
import { Menu } from './menu.ts'
import { nativeTheme } from './native-theme.ts'
import { plain } from './page.ts'
import { clickElsewhere, clickIcon, iconClick, refuseFocus } from './person.ts'
import { announce, powerEvents } from './power-monitor.ts'
import { answerFor } from './protocol.ts'
import { download, permissionsOf } from './session.ts'
import { opened } from './shell.ts'
import { trayNow, type Tray } from './tray.ts'
import { windows } from './windows.ts'

const rectangle = z.object({ x: z.number(), y: z.number(), width: z.number(), height: z.number() })

/** What a test may do to the app and see of it. */
export const controlRequest = z.discriminatedUnion('do', [
  z.object({ do: z.literal('look') }),
  z.object({ do: z.literal('clickIcon'), ...iconClick.shape }),
  z.object({ do: z.literal('openMenu') }),
  z.object({ do: z.literal('choose'), labels: z.array(z.string()) }),
  /** In the menu at the top of the screen. */
  z.object({ do: z.literal('chooseInBar'), labels: z.array(z.string()) }),
  z.object({ do: z.literal('closeMenu') }),
  /** On the keyboard, while the window has the focus. */
  z.object({ do: z.literal('keys'), accelerator: z.string() }),
  z.object({ do: z.literal('question') }),
  z.object({ do: z.literal('press'), button: z.string(), isChecked: z.boolean().default(false) }),
  z.object({ do: z.literal('opened') }),
  /** Of the page. */
  z.object({ do: z.literal('download'), filename: z.string(), text: z.string() }),
  /** Of the mouse in the page; answers what stands in the menu. */
  z.object({ do: z.literal('contextMenu'), isEditable: z.boolean(), selectionText: z.string() }),
  z.object({ do: z.literal('clipboard') }),
  /** Of the whole machine. */
  z.object({ do: z.literal('power'), event: z.enum(powerEvents) }),
  z.object({ do: z.literal('moveIcon'), bounds: rectangle }),
  z.object({ do: z.literal('appearance'), is: z.enum(['light', 'dark']) }),
  z.object({ do: z.literal('crashPage') }),
  z.object({ do: z.literal('closeWindow') }),
  z.object({ do: z.literal('clickElsewhere') }),
  /** From now on no window gets the keys when it asks for them. */
  z.object({ do: z.literal('refuseFocus') }),
  z.object({ do: z.literal('occlude'), isOccluded: z.boolean() }),
  /** As it comes sooner or later by itself. */
  z.object({ do: z.literal('collectGarbage') }),
  z.object({ do: z.literal('activate') }),
  /** In the app's own code, where nobody catches it. */
  z.object({ do: z.literal('fail'), message: z.string(), how: z.enum(['thrown', 'rejected']) }),
  /** Calls the app's IPC as a page that is not its own could. */
  z.object({
    do: z.literal('forge'),
    channel: z.string(),
    content: z.unknown().optional(),
    origin: z.string(),
    frame: z.enum(['main', 'sub', 'gone']),
  }),
  z.object({ do: z.literal('request'), url: z.string(), method: z.string() }),
  z.object({ do: z.literal('permissions'), origin: z.string(), permission: z.string() }),
  ...macosRequests,
])
export type ControlRequest = z.input<typeof controlRequest>

const message = z.object({ id: z.number(), request: controlRequest })

/** Answers what the test asks over the channel that it started this process with; without a channel there are no requests. */
export function answerControl(): void {
  process.on('message', (asked: unknown) => {
    const { id, request } = message.parse(asked)
    // Before it is ready there is nothing of the app to be asked.
    const carriedOut = app.whenReady().then(() => carryOut(request))
    carriedOut.then(
      (value) => process.send?.({ id, value }),
      (error: unknown) => process.send?.({ id, error: String(error) }),
    )
  })
  // Nothing is left of it after the test.
  process.on('disconnect', () => process.exit(1))
}

function contextMenuOf(params: { readonly isEditable: boolean; readonly selectionText: string }): unknown {
  const before = Menu.popped
  for (const { webContents } of windows) webContents.emit('context-menu', {}, params)
  return Menu.popped === before ? undefined : Menu.popped?.items.map(({ role }) => role)
}

/** The app may take its time; a menu that is open is closed first, as any click does. */
async function openedMenu(tray: Tray): Promise<Menu> {
  tray.menu?.emit('menu-will-close')
  const shown = once(tray, 'menu-shown')
  tray.emit('right-click', {}, tray.getBounds())
  const [menu] = (await shown) as [Menu]
  return menu
}

async function carryOut(request: z.output<typeof controlRequest>): Promise<unknown> {
  if (isMacosRequest(request)) return carryOutOnMacos(request)
  const tray = trayNow()
  switch (request.do) {
    case 'look':
      return {
        icon: tray?.shown,
        windows: [...windows].map(({ shown }) => shown),
        isSandboxed: app.isSandboxed,
        isInDock: app.dock.isVisible(),
        isActive: app.isActive(),
        isMenuOpen: tray?.isMenuOpen === true,
      }
    case 'clickIcon':
      if (!tray) throw new Error('There is no icon yet.')
      return clickIcon(tray, request)
    case 'openMenu':
      return tray && (await openedMenu(tray)).shown
    case 'choose':
      return tray?.menu?.choose(request.labels)
    case 'chooseInBar':
      return Menu.getApplicationMenu()?.choose(request.labels)
    case 'keys':
      return Menu.getApplicationMenu()?.press(request.accelerator)
    case 'closeMenu':
      return void tray?.menu?.emit('menu-will-close')
    case 'question':
      return question()
    case 'press':
      press(request.button, request.isChecked)
      return undefined
    case 'opened':
      return opened
    case 'download':
      download(request.filename, request.text)
      return undefined
    case 'contextMenu':
      return contextMenuOf(request)
    case 'clipboard':
      return copied.at(-1)
    case 'power':
      return announce(request.event)
    case 'crashPage':
      // What the app opens in place of one is not among them.
      for (const { webContents } of [...windows]) webContents.emit('render-process-gone', {}, { reason: 'crashed' })
      return undefined
    case 'closeWindow':
      for (const window of [...windows]) window.close()
      return undefined
    case 'clickElsewhere':
      clickElsewhere()
      return undefined
    case 'refuseFocus':
      refuseFocus()
      return undefined
    case 'occlude':
      for (const window of windows) window.occlude(request.isOccluded)
      return undefined
    case 'moveIcon':
      tray?.moveTo(request.bounds)
      return undefined
    case 'appearance':
      nativeTheme.become(request.is)
      return undefined
    case 'collectGarbage':
      return collectGarbage()
    case 'activate':
      return void app.emit('activate')
    case 'fail':
      setImmediate(() => {
        const error = new Error(request.message)
        if (request.how === 'thrown') throw error
        void Promise.reject(error)
      })
      return undefined
    case 'forge': {
      const own = { origin: request.origin, url: `${request.origin}/index.html` }
      const senderFrame = { main: own, sub: { ...own }, gone: null }[request.frame]
      return invoke({ sender: { mainFrame: own }, senderFrame }, request.channel, [request.content])
    }
    case 'request': {
      const { status, headers, body } = await plain(await answerFor(request.url, request.method))
      return { status, headers, body: body.toString() }
    }
    case 'permissions':
      return permissionsOf(request.origin, request.permission)
  }
}
