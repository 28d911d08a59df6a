import { type KeyboardEvent, useState } from 'react'

/**
 * A question that takes the place of the button that asks it. The button that has the focus goes away with each step: the focus
 * belongs on the answer that changes nothing, and afterwards on the button that came back.
 */
export function useQuestion() {
  const [step, setStep] = useState<'before' | 'asked' | 'after'>('before')
  const close = () => setStep('after')
  return {
    isAsked: step === 'asked',
    isOver: step === 'after',
    open: () => setStep('asked'),
    close,
    /** For what holds the question: Escape is the answer that changes nothing, and goes no further. */
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || step !== 'asked') return
      event.preventDefault()
      event.stopPropagation()
      close()
    },
  }
}
