import { expect, test } from 'vitest'
import { popoverPosition } from '../../../src/main/popover-position.ts'

const window = { width: 400, height: 620 }
const workArea = { x: 0, y: 25, width: 1440, height: 875 }
const icon = (x: number, width = 24, height = 25) => ({ x, y: 0, width, height })

test.for([
  ['under the icon', icon(700), workArea, { x: 512, y: 30 }],
  ['inside the screen at its right edge', icon(1_420), workArea, { x: 1_035, y: 30 }],
  ['inside the screen at its left edge', icon(3), workArea, { x: 5, y: 30 }],
  ['on whole points', icon(700, 23.5), workArea, { x: 512, y: 30 }],
  ['in the corner when the icon is hidden', icon(0, 0, 0), workArea, { x: 1_035, y: 30 }],
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
