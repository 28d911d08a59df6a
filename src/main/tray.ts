import path from 'node:path'
import { Menu, nativeImage, Tray, type MenuItemConstructorOptions, type Rectangle } from 'electron'
import { paced } from '../serve/paced.ts'
import type { AgentViewStore } from './agent-view.ts'
import { iconOf, type Icon } from './icon.ts'
import { menuOf, type MenuDeed, type MenuEntry } from './menu.ts'

export interface TrayOptions {
  /** Holds the template images. */
  readonly imageFolder: string
  readonly view: AgentViewStore
  readonly onClick: () => void
  readonly onDeed: (deed: MenuDeed) => void
}

/** macOS drops images that follow one another faster. */
const updateIntervalMs = 200

/** Kept here: Electron takes an icon away that nothing refers to. */
let tray: Tray | undefined

/** Puts the icon into the menu bar. Answers where it is; empty where the system hides it. */
export function showTray({ imageFolder, view, onClick, onDeed }: TrayOptions): () => Rectangle {
  const shown = new Tray(imageOf(imageFolder, iconOf(view.getState())))
  tray = shown
  let current: Icon | undefined
  const update = () => {
    const next = iconOf(view.getState())
    if (next.name !== current?.name) shown.setImage(imageOf(imageFolder, next))
    if (next.tooltip !== current?.tooltip) shown.setToolTip(next.tooltip)
    current = next
  }
  update()
  const pace = paced(updateIntervalMs, update)
  view.subscribe(() => pace.due())
  shown.on('click', onClick)
  // Built when it is opened, and never replaced while it is open.
  shown.on('right-click', () =>
    shown.popUpContextMenu(Menu.buildFromTemplate(menuOf(view.getState()).map((entry) => itemOf(entry, onDeed)))),
  )
  return () => tray?.getBounds() ?? { x: 0, y: 0, width: 0, height: 0 }
}

function imageOf(folder: string, { name }: Icon) {
  const image = nativeImage.createFromPath(path.join(folder, `${name}Template.png`))
  image.setTemplateImage(true)
  return image
}

function itemOf(entry: MenuEntry, onDeed: (deed: MenuDeed) => void): MenuItemConstructorOptions {
  if (entry.kind === 'separator') return { type: 'separator' }
  const { label, deed, accelerator, entries } = entry
  return {
    label,
    enabled: deed !== undefined || entries !== undefined,
    ...(accelerator !== undefined && { accelerator }),
    ...(entries && { submenu: entries.map((below) => itemOf(below, onDeed)) }),
    ...(deed && { click: () => onDeed(deed) }),
  }
}
