import { expect, test } from 'vitest'
import { Ends } from '../../soak/ends.ts'
import { Touches } from '../../soak/touches.ts'

const red = { pid: 10, service: 'red' } as const

function room() {
  const touches = new Touches({ aftermathMs: 1_000 })
  return { touches, ends: new Ends(touches) }
}

test('a server that ends although nothing was done to its service is told', () => {
  const { touches, ends } = room()
  touches.begin(['sky-blue'])
  expect(ends.see([red], 0)).toEqual([])
  expect(ends.see([red], 100)).toEqual([])
  expect(ends.see([], 200)).toEqual(['Server 10 of red ended, and nothing had been done to red.'])
  expect(ends.see([], 300)).toEqual([])
})

test('what is being done to it, was done while it lived, or shortly before it ended, explains it', () => {
  const during = room()
  during.ends.see([red], 0)
  during.touches.begin(['red'])
  expect(during.ends.see([], 100)).toEqual([])

  const lately = room()
  lately.ends.see([red], 0)
  lately.touches.begin(['red'])
  lately.touches.end(['red'], 100)
  expect(lately.ends.see([], 50_000)).toEqual([])

  const before = room()
  before.touches.begin(['red'])
  before.touches.end(['red'], 0)
  before.ends.see([red], 500)
  expect(before.ends.see([], 900)).toEqual([])
})

test('what was done before everything was as it should be explains nothing', () => {
  const { touches, ends } = room()
  ends.see([red], 0)
  touches.begin(['red'])
  touches.end(['red'], 100)
  touches.settle()
  expect(ends.see([], 200)).toHaveLength(1)
})
