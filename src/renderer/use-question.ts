import { useState } from 'react'

/**
 * A question that takes the place of the button that asks it. The button that has the focus goes away with each step: the focus
 * belongs on the answer that changes nothing, and afterwards on the button that came back.
 */
export function useQuestion() {
  const [step, setStep] = useState<'before' | 'asked' | 'after'>('before')
  return {
    isAsked: step === 'asked',
    isOver: step === 'after',
    open: () => setStep('asked'),
    close: () => setStep('after'),
  }
}
