import { describe, expect, test } from 'vitest'
import { displayOf, popoverPosition, withinReach } from '../../../src/main/window/popover-position.ts'

const window = { width: 400, height: 620 }
const workArea = { x: 0, y: 25, width: 1440, height: 875 }
const icon = (x: number, width = 24, height = 25) => ({ x, y: 0, width, height })

test.for([
  ['under the icon', icon(700), workArea, { x: 512, y: 30 }],
  ['inside the screen at its right edge', icon(1_420), workArea, { x: 1_035, y: 30 }],
  ['inside the screen at its left edge', icon(3), workArea, { x: 5, y: 30 }],
  ['on whole points', icon(700, 23.5), workArea, { x: 512, y: 30 }],
  ['in the corner when the icon is hidden', undefined, workArea, { x: 1_035, y: 30 }],
  [
    'on a display to the left of the first',
    icon(-900),
    { x: -1_920, y: 25, width: 1_920, height: 1_055 },
    { x: -1_088, y: 30 },
  ],
  [
    'with its upper left corner in sight on a small screen',
    icon(100),
    { x: 0, y: 25, width: 320, height: 400 },
    { x: 5, y: 30 },
  ],
] as const)('the window opens %s', ([, at, area, expected]) => {
  expect(popoverPosition(at, window, area)).toEqual(expected)
})

test('a place is never -0, which Electron refuses', () => {
  const area = { x: -100, y: 25, width: 3_000, height: 875 }
  expect(popoverPosition(icon(188, 23.5), window, area)).toEqual({ x: 0, y: 30 })
})

test.for([
  ['where it is, however little is seen of it', { x: 1_380, y: 870 }, undefined],
  ['off a screen to the right', { x: 1_400, y: 200 }, { x: 1_040, y: 200 }],
  ['off a screen above', { x: 100, y: -300 }, { x: 100, y: 25 }],
  ['off a screen below', { x: 100, y: 890 }, { x: 100, y: 280 }],
  ['off every screen', { x: -3_000, y: -3_000 }, { x: 0, y: 25 }],
] as const)('a window of its own is within reach %s', ([, at, expected]) => {
  const displays = [{ bounds: { x: 0, y: 0, width: 1_440, height: 900 } }]
  expect(withinReach({ ...at, ...window }, displays, workArea)).toEqual(expected && { ...expected, ...window })
})

test('a window that is larger than the screen that is left is as large as that', () => {
  const away = { x: 2_000, y: 0, width: 2_000, height: 1_200 }
  expect(withinReach(away, [{ bounds: { x: 0, y: 0, width: 1_440, height: 900 } }], workArea)).toEqual(workArea)
})

describe('an icon is seen', () => {
  const laptop = { bounds: { x: 0, y: 0, width: 1_440, height: 900 }, workArea }
  const left = {
    bounds: { x: -1_920, y: -180, width: 1_920, height: 1_080 },
    workArea: { x: -1_920, y: -150, width: 1_920, height: 1_050 },
  }
  const withoutBar = { bounds: laptop.bounds, workArea: laptop.bounds }

  test.for([
    ['in the menu bar', icon(1_000), [laptop, left], laptop],
    ['in the one of another display', { ...icon(-100), y: -178 }, [laptop, left], left],
    ['in one that hides itself', icon(1_000), [withoutBar], withoutBar],
    ['nowhere without bounds', { x: 0, y: 0, width: 0, height: 0 }, [laptop, left], undefined],
    ['nowhere below the screen', { x: 0, y: 1_117, width: 32, height: 22 }, [laptop, left], undefined],
    ['nowhere below the menu bar', { ...icon(1_000), y: 400 }, [laptop, left], undefined],
    ['nowhere above the screen', { ...icon(1_000), y: -40 }, [laptop], undefined],
    ['nowhere beside the screens', icon(2_000), [laptop, left], undefined],
  ] as const)('%s', ([, bounds, displays, expected]) => {
    expect(displayOf<(typeof displays)[number]>(bounds, displays)).toBe(expected)
  })
})
