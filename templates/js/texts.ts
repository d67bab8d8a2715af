// The dialog's texts in English, which need no further request. Made from ../locales by
// `go test ./templates -run TestScriptTexts -update`; do not edit.

import type { Texts } from './antirobot';

export const builtin: Texts = {
  lang: "en",
  dir: "ltr",
  challenge_heading: "Are you a person?",
  reason_network: "Requests from your network look like those of a program.",
  reason_pace: "You have asked for a lot of pages in a short time.",
  reason_message: "What you have written looks like a message that programs send.",
  reason_load: "The site is very busy just now and lets people in before programs.",
  reason_service: "The site asks everybody for a confirmation at this step.",
  dialog_todo: "Type the digits from the picture, and what you were doing goes on.",
  picture_alt: "Picture with the digits to type. If you cannot see it, use the sound below.",
  audio_label: "The same digits as a sound",
  new_picture: "Another picture",
  answer_label: "Digits from the picture or the sound",
  answer_hint: "Only digits; spaces do not matter. There is no hurry.",
  continue: "Continue",
  cancel: "Cancel",
  checking: "Checking…",
  problem_failed: "The digits did not match. Here is a new picture, please try again.",
  problem_expired: "The picture had become too old. Here is a new one, nothing is lost.",
  limited_text: "There were too many tries from your address in a short time. You are not banned.",
  offline: "The site cannot be reached just now. Nothing is lost; try again in a moment.",
  why_heading: "Why do I see this?",
  why_text: "Many requests have come from your address, or from somebody who shares it (an office, a mobile network, a VPN). An extension of the browser or a program on the device may send them too. You have done nothing wrong.",
  request_id: "Request number",
  test_notice: "Test mode: every challenge on this site accepts the same answer.",
  work_offer: "Without digits: let the browser work",
  work_running: "Your browser is working; there is nothing to type. It takes some seconds.",
  work_failed: "That did not work in this browser. Please use the picture or the sound.",
  press_todo: "Press the button to go on.",
  press_button: "I am a person",
  digits_instead: "Read or hear digits instead",
};
