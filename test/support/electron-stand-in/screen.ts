const display = { workArea: { x: 0, y: 25, width: 1440, height: 875 } }

/** One display with a menu bar of 25 points. */
export const screen = {
  getCursorScreenPoint: () => ({ x: 0, y: 0 }),
  getDisplayNearestPoint: () => display,
  getDisplayMatching: () => display,
}
