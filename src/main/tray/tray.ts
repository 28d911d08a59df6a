import path from 'node:path'
import { app, Menu, nativeImage, type Rectangle, screen, Tray } from 'electron'
import type { Logger } from '../../agent-core/observability/logger.ts'
import { type AgentView, type AgentViewStore, onceKnown } from '../agent/agent-view.ts'
import { displayOf } from '../window/popover-position.ts'
import type { ShellPreferences } from '../preferences.ts'
import { tellHiddenIcon } from '../lifecycle/questions.ts'
import { type Icon, iconOf } from './icon.ts'
import { type MenuAction, templateOf } from './menu-entries.ts'
import { menuOf } from './menu.ts'
import { paced } from '../../serve/feeds.ts'

export interface TrayOptions {
  /** Holds the template images. */
  readonly imageFolder: string
  readonly view: AgentViewStore
  readonly log: Logger
  readonly onPress: () => void
  /** Where the icon was when it was clicked. */
  readonly onClick: (icon: Rectangle) => void
  /** Brings up to date what the menu shows; the menu opens when it settles. */
  readonly beforeMenu: () => Promise<void>
  readonly onAction: (deed: MenuAction) => void
}

/** By it macOS finds the place again to which a person moved the icon. */
const iconId = '6d0c9f5e-3f0b-4a57-9d0e-8a2f6f1b7c34'

/** macOS drops images that follow one another faster. */
const updateIntervalMs = 200

/** Kept here, since Electron destroys a menu that nothing refers to; the view's listener keeps the icon. */
let menu: ReturnType<typeof Menu.buildFromTemplate> | undefined

/** Puts the icon into the menu bar. Answers where it is; empty where the system hides it. */
export function showTray(options: TrayOptions): () => Rectangle {
  const { imageFolder, view, onPress, onClick } = options
  const shown = new Tray(imageOf(imageFolder, iconOf(view.getState())), iconId)
  // Else macOS waits for a second click before it tells of the first.
  shown.setIgnoreDoubleClickEvents(true)
  let current: Icon | undefined
  const update = () => {
    const next = iconOf(view.getState())
    if (next.name !== current?.name) shown.setImage(imageOf(imageFolder, next))
    if (next.tooltip !== current?.tooltip) shown.setToolTip(next.tooltip)
    // There on macOS alone.
    if (next.title !== (current?.title ?? '') && 'setTitle' in shown) {
      shown.setTitle(next.title, { fontType: 'monospacedDigit' })
    }
    current = next
  }
  update()
  const pace = paced(updateIntervalMs, update)
  view.subscribe(() => pace.due())
  const openMenu = menuOpener(shown, options)
  shown.on('mouse-down', onPress)
  shown.on('click', (event, bounds) => {
    if (event.ctrlKey === true) openMenu()
    else onClick(bounds)
  })
  shown.on('right-click', openMenu)
  return () => shown.getBounds()
}

/** The menu is built when it is opened, and never replaced while it is open. */
function menuOpener(shown: Tray, { view, log, beforeMenu, onAction }: TrayOptions): () => void {
  let isOpening = false
  const popUp = () => {
    isOpening = false
    menu = Menu.buildFromTemplate(templateOf(menuOf(view.getState()), onAction))
    menu.once('menu-will-close', () => view.setState({ isMenuOpen: false }))
    shown.popUpContextMenu(menu)
  }
  const brought = async () => {
    try {
      await beforeMenu()
    } catch (error) {
      log.warn('the menu opens with what was known before', { error })
    }
  }
  return () => {
    if (isOpening) return
    isOpening = true
    view.setState({ isMenuOpen: true })
    void brought().then(popUp)
  }
}

function imageOf(folder: string, { name }: Icon) {
  const image = nativeImage.createFromPath(path.join(folder, `${name}Template.png`))
  image.setTemplateImage(true)
  return image
}

/** The menu bar is laid out by then. */
const layoutMs = 3_000

/** Whether macOS shows the icon: where it has no room for it, or the camera is there, its place is on no menu bar. */
export function iconState(icon: Rectangle): 'shown' | 'hidden' | 'unknown' {
  const displays = screen.getAllDisplays()
  // The bounds say it on macOS alone.
  if (!app.dock || displays.length === 0) return 'unknown'
  return displayOf(icon, displays) ? 'shown' : 'hidden'
}

/** Where macOS has no room for the icon nothing else says that the app runs, and nothing else opens its window. */
export function rescueHiddenIcon(icon: () => Rectangle, onHidden: () => void): void {
  if (!app.dock) return
  setTimeout(() => {
    if (iconState(icon()) === 'hidden') onHidden()
  }, layoutMs)
}

export interface TellOnceOptions {
  readonly view: AgentViewStore
  readonly log: Logger
  readonly prefer: (changes: Partial<ShellPreferences>) => Promise<void>
}

/** Where macOS shows no icon, a person is told why a window opened, and never again. */
export function tellHiddenIconOnce({ view, log, prefer }: TellOnceOptions): void {
  const preferences = (now: AgentView) => now.preferences
  // A login shell that is slow holds them up for longer than the menu bar.
  onceKnown(view, preferences, ({ hiddenIconTold }) => {
    if (hiddenIconTold) return
    tellHiddenIcon()
      .then(() => prefer({ hiddenIconTold: true }))
      .catch((error: unknown) => log.warn('not remembered that the hidden icon was told', { error }))
  })
}
