import { app } from 'electron'

/** For a second after it was shown Electron does not hide it, since macOS would keep a second one; and a timer may come early. */
const settleMs = 1_100

/** The icon in the Dock, which the app has while a window of its own is open. */
export class DockIcon {
  #shownAt = -Infinity
  #hiding: NodeJS.Timeout | undefined

  show(): void {
    clearTimeout(this.#hiding)
    this.#shownAt = performance.now()
    void app.dock?.show()
  }

  hide(): void {
    clearTimeout(this.#hiding)
    const waitMs = Math.max(0, this.#shownAt + settleMs - performance.now())
    this.#hiding = setTimeout(() => app.dock?.hide(), Math.ceil(waitMs))
  }
}
